"""The docs say what the code does: hooks, code blocks, links."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin import hookspecs
from agent_env.testing.small import ask, contains, write_bundle

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def hook_headings(text: str) -> list[str]:
    return re.findall(r"^## `(agentenv_\w+\(.*\) -> .*)`$", text, re.MULTILINE)


def hook_signatures() -> list[str]:
    found = [
        f"{name}{inspect.signature(value)}".replace("'", "")
        for name, value in vars(hookspecs).items()
        if inspect.isfunction(value) and name.startswith("agentenv_")
    ]
    assert len(found) == 6
    return found


def test_every_hook_is_documented_with_its_signature() -> None:
    assert hook_headings((ROOT / "docs/hooks.md").read_text()) == hook_signatures()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(FENCE.sub("", page.read_text())) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_can_be_read(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text()):
        if language == "python":
            compile(block, str(page), "exec")
        elif language == "json":
            json.loads(block)
        elif language == "toml":
            tomllib.loads(block)


# -- pages made from the code -----------------------------------------------------------------------------------------


def load_reference() -> ModuleType:
    """docs/make_reference.py as a module."""
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs/make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_reference"] = module
    spec.loader.exec_module(module)
    return module


reference: Any = load_reference()


@pytest.mark.parametrize("one", reference.PAGES, ids=lambda one: one.kind)
def test_a_page_of_a_kind_says_what_the_code_says(one: Any) -> None:
    text = (ROOT / "docs/plugins" / f"{one.kind}.md").read_text(encoding="utf-8")
    assert text == reference.page(one), "write it again with `python docs/make_reference.py`"


def test_the_pages_hold_every_public_name_of_their_contracts() -> None:
    assert [one.kind for one in reference.PAGES] == list(reference.SPECS)
    for one in reference.PAGES:
        if one.module is not None:
            module = importlib.import_module(one.module)
            public = {
                name
                for name, value in vars(module).items()
                if inspect.isclass(value) and value.__module__ == one.module and not name.startswith("_")
            }
            assert public - set(one.names) <= {"Row"}, f"docs/plugins/{one.kind}.md leaves something out"


def test_the_table_of_keys_is_that_of_plugins_list() -> None:
    from dataclasses import fields

    from agent_env.registry import PluginRow

    table = (ROOT / "docs/plugins.md").read_text().rpartition("| key | meaning |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [field.name for field in fields(PluginRow)]


# -- Python that runs -------------------------------------------------------------------------------------------------

RUN = ["README.md", "docs/plugins.md", "docs/hooks.md", "examples/reward-plugin/README.md"]


@pytest.mark.parametrize("name", RUN)
def test_the_python_of_a_page_runs(name: str, tmp_path: Path) -> None:
    """All blocks of a page, one after the other, as one module, beside the bundles that they name."""
    blocks = [block for language, block in FENCE.findall((ROOT / name).read_text()) if language == "python"]
    (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    steps = [*ask("What?"), contains("grade", "x"), contains("format", "y")]
    write_bundle(tmp_path / "my-bundle", {"task": steps})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENV_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import page"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
