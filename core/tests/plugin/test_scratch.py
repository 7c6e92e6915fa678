from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.sandboxing.scratch import Scratch, ScratchFolder

if TYPE_CHECKING:
    from pathlib import Path

MAKES = """
import time
from agent_env.plugin.sandboxing.scratch import ScratchFolder
folder = ScratchFolder("ae-test")
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp directory of the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def names(temp: Path) -> list[str]:
    return sorted(path.name for path in temp.iterdir())


def test_it_is_there_and_then_gone(temp: Path) -> None:
    async def go() -> None:
        async with Scratch("ae-test") as scratch:
            await scratch.run((scratch.path / "file").write_text, "words")
            assert (scratch.path / "file").read_text() == "words"
            assert scratch.path.stat().st_mode & 0o077 == 0
            assert len(names(temp)) == 1

    asyncio.run(go())
    assert names(temp) == []


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(temp: Path) -> None:
    command = [sys.executable, "-c", MAKES]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as living,
    ):
        assert killed.stdout is not None
        assert living.stdout is not None
        left, kept = killed.stdout.readline().strip(), living.stdout.readline().strip()
        killed.kill()
        killed.wait()
        (temp / "ae-test-of-somebody-else").write_text("a file")
        with ScratchFolder("ae-test") as own, ScratchFolder("ae-other"):
            found = {str(path) for path in temp.glob("ae-test-*")}
            assert found == {kept, str(own), str(temp / "ae-test-of-somebody-else")}
            assert left not in found
        living.kill()


@pytest.mark.parametrize("cancels", [1, 3])
def test_cancelled_while_a_thread_writes_it_is_gone_after_the_thread(temp: Path, cancels: int) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def write(folder: Path) -> None:
        writing.set()
        assert go_on.wait(30)
        folder.mkdir(exist_ok=True)
        for number in range(50):
            (folder / f"{number}").write_text("x")

    async def use() -> None:
        async with Scratch("ae-test") as scratch:
            await scratch.run(write, scratch.path / "deep")

    async def go() -> None:
        task = asyncio.create_task(use())
        await asyncio.to_thread(writing.wait, 30)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.02)
        assert not task.done()
        go_on.set()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(go())
    assert names(temp) == []


def test_cancelled_at_any_moment_it_leaves_nothing(temp: Path) -> None:
    async def use() -> None:
        async with Scratch("ae-test") as scratch:
            await scratch.run((scratch.path / "file").write_text, "x")

    async def go() -> None:
        for number in range(60):
            task = asyncio.create_task(use())
            await asyncio.sleep(number / 60 * 0.003)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(go())
    assert names(temp) == []


def test_an_error_of_the_work_is_the_callers(temp: Path) -> None:
    async def go() -> None:
        async with Scratch("ae-test") as scratch:
            with pytest.raises(FileNotFoundError):
                await scratch.run((scratch.path / "none").read_text)

    asyncio.run(go())
    assert names(temp) == []
