"""Sandbox checks: files and folders, both ways."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from unittest import SkipTest

from agent_env.testing.checks import Checks
from agent_env.testing.sandbox_case import SandboxCase, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent_env.plugin.sandbox import Sandbox
    from agent_env.testing.sandbox_case import Play


class FileChecks(Checks):
    """Files."""

    case: SandboxCase

    def _files(self, work: Callable[[Play, Sandbox], Awaitable[None]]) -> None:
        async def with_box(one: Play) -> None:
            if not one.provider.capabilities.files:
                raise SkipTest("the provider moves no files")
            async with await one.create(serves=False) as box:
                await work(one, box)

        play(self.case, with_box)

    def test_files_round_trip(self) -> None:
        """Any bytes under any name, in folders that are made; relative paths start at the work folder."""

        async def work(_: Play, box: Sandbox) -> None:
            every = bytes(range(256)) * 512
            for path, data in (
                ("/data/deep/er/every.bin", every),
                ("/data/empty", b""),
                ("/data/a b é'$.txt", b"x"),
                ("relative/note.txt", b"here"),
            ):
                await box.write(path, data)
                assert await box.read(path) == data, f"{path} came back changed"
            await box.write("/data/empty", b"second")
            assert await box.read("/data/empty") == b"second"
            await box.write("/data/empty", b"3")
            assert await box.read("/data/empty") == b"3", "a shorter content keeps the end of the longer"

        self._files(work)

    def test_files_are_seen_by_commands(self) -> None:
        """And what commands write is read; a mode is kept; files can be changed by the sandbox's user."""

        async def work(one: Play, box: Sandbox) -> None:
            if not one.provider.capabilities.exec:
                raise SkipTest("the provider runs no commands")
            await box.write("/data/run.py", b"#!/usr/bin/env python\nprint('ran')\n", mode=0o755)
            code = "import os; print(oct(os.stat('run.py').st_mode & 0o777)); open('run.py', 'a').write('# more')"
            done = await box.exec(["python", "-c", code], cwd="/data")
            assert done.stdout.strip() == "0o755", f"{done.stdout} {done.stderr}"
            done = await box.exec(["python", "-c", "open('made.txt', 'w').write('by a command')"], cwd="/data")
            assert done.exit_code == 0, done.stderr
            assert await box.read("/data/made.txt") == b"by a command"

        self._files(work)

    def test_files_that_cannot_be_read(self) -> None:
        """Missing: `FileNotFoundError`; a folder: `IsADirectoryError`; too large: `ValueError`."""

        async def work(_: Play, box: Sandbox) -> None:
            await box.write("/data/file", b"12345")
            assert await box.read("/data/file", max_bytes=5) == b"12345"
            await _raises(FileNotFoundError, box.read("/data/missing"))
            await _raises(FileNotFoundError, box.read("/nowhere/at/all"))
            await _raises(IsADirectoryError, box.read("/data"))
            await _raises(ValueError, box.read("/data/file", max_bytes=4))

        self._files(work)

    def test_folders_go_in_and_come_back(self) -> None:
        """The content of a folder, its subfolders, modes and empty files; a single file too."""

        async def work(one: Play, box: Sandbox) -> None:
            source, back = one.folder / "source", one.folder / "back"
            await asyncio.to_thread(_make_tree, source)
            await box.upload(source, "/data/tree")
            assert await box.read("/data/tree/a/b/deep.txt") == b"deep"
            await box.download("/data/tree", back)
            assert await asyncio.to_thread(_tree, back) == await asyncio.to_thread(_tree, source)
            await box.upload(source / "top.bin", "/other/one.bin")
            await box.download("/other/one.bin", one.folder / "got" / "one.bin")
            got = await asyncio.to_thread((one.folder / "got" / "one.bin").read_bytes)
            assert got == await asyncio.to_thread((source / "top.bin").read_bytes)
            await _raises(FileNotFoundError, box.download("/data/missing", one.folder / "nothing"))

        self._files(work)

    def test_folders_are_merged(self) -> None:
        """An upload into a folder that is there keeps what else is in it."""

        async def work(one: Play, box: Sandbox) -> None:
            await box.write("/data/tree/kept.txt", b"kept")
            await asyncio.to_thread(_make_tree, one.folder / "source")
            await box.upload(one.folder / "source", "/data/tree")
            assert await box.read("/data/tree/kept.txt") == b"kept"
            assert await box.read("/data/tree/empty") == b""

        self._files(work)


def _make_tree(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "deep.txt").write_bytes(b"deep")
    (folder / "top.bin").write_bytes(os.urandom(300_000))
    (folder / "empty").write_bytes(b"")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def _raises(kind: type[Exception], work: Awaitable[object]) -> None:
    try:
        got = await work
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}, got {got!r:.80}")
