"""The docs say what the code does: hooks, code blocks, links."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from pathlib import Path

import pytest

from agent_env.plugin import hookspecs

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
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
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
