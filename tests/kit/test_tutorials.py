"""The tutorials do what they say: their files are written, their commands run and their Python runs, as a stranger
would who follows them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Environment

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
PIP = '#!/bin/sh\nshift\nexec "{uv}" pip install -q --reinstall-package "$(basename "$1")" --python "{python}" "$@"\n'


class Reader:
    """Follows a tutorial in a folder of its own."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self._folder = folder
        pip = folder / "bin" / "pip"
        pip.parent.mkdir()
        pip.write_text(PIP.format(uv=environment.uv, python=environment.python))
        pip.chmod(0o755)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENV_")}
        path = os.pathsep.join([str(pip.parent), str(environment.path / "bin"), clean["PATH"]])
        self._environ = {**clean, "PATH": path, "PYTHONPATH": "", "NO_COLOR": "1"}
        self.said = ""

    def follow(self, page: Path) -> dict[str, int]:
        """Do everything that a page says; how many blocks of each language there were."""
        count: dict[str, int] = {}
        script = ""  # blocks of Python go on where those before them stopped
        for indent, language, raw in BLOCK.findall(page.read_text(encoding="utf-8")):
            block = re.sub(rf"^{indent}", "", raw, flags=re.MULTILINE)
            named = FILE.match(block)
            if named is not None:
                path = self._folder / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block, encoding="utf-8")
            elif language == "python":
                script += block
                self._run(["python", "-W", "error", "-c", script], block)
            elif language == "sh":
                self.said = "".join(self._line(line) for line in block.splitlines() if line.strip())
            elif language == "text":
                for line in block.splitlines():
                    assert " ".join(line.split()) in " ".join(self.said.split()), f"{line!r} is not in {self.said}"
            else:
                raise AssertionError(f"{page.name}: a block of {language}, which nobody runs")
            count[language] = count.get(language, 0) + 1
        return count

    def _line(self, line: str) -> str:
        fails = line.startswith("! ")
        return self._run(["sh", "-c", line.removeprefix("! ")], line, fails=fails)

    def _run(self, command: list[str], what: str, *, fails: bool = False) -> str:
        done = subprocess.run(
            command, cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=200, check=False
        )
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, f"{what}\n{said[-3000:]}"
        assert "Traceback" not in said, said
        return said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.timeout(400)
def test_a_tutorial_works(page: Path, stranger: Environment, tmp_path: Path) -> None:
    done = Reader(stranger, tmp_path).follow(page)
    assert done["sh"] >= 1
    assert done.get("text", 0) >= 1
    assert done.get("python", 0) >= 1


def test_there_is_one_for_every_kind() -> None:
    assert {page.stem for page in PAGES} == {"sandbox", "reward", "parser", "trainer", "step", "command"}
    assert {page.stem for page in (DOCS / "plugins").glob("*.md")} == {page.stem for page in PAGES}


def test_the_custom_combiner_is_ten_lines() -> None:
    """Lines that do something, beside imports and the hook that every plugin has."""
    (text,) = re.findall(r"# thrifty/thrifty\.py\n(.*?)^```", (DOCS / "tutorials/reward.md").read_text(), re.M | re.S)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("from ")]
    assert len(lines) <= 10
