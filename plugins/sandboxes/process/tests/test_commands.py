"""Commands and files of a sandbox."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SandboxGone, SandboxTimeout, SandboxUnsupported
from agent_env.plugin.sandbox import HostImage, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider
from agent_env.sandboxes.process.rooted import open_in
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Isolation

    Processes = Any

MACHINE = SandboxSpec(image=HostImage(), serves=False)


def test_commands(state_dir: Path, isolation: Isolation, processes: Processes) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(MACHINE)
            with pytest.raises(SandboxUnsupported, match="without a server"):
                await box.endpoint()
            done = await box.exec(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"input")
            assert (done.exit_code, done.stdout, done.stderr, done.truncated) == (3, "input", "err\n", False)
            assert (await box.exec(["sh", "-c", "kill -9 $$"])).exit_code == 137
            assert (await box.exec(["no-such-program"])).exit_code != 0
            done = await box.exec(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2"], max_output=1000)
            assert (done.stdout, done.stderr, done.truncated) == ("x" * 1000, "e\n", True)
            big = os.urandom(3_000_000)
            done = await box.exec(["sha256sum"], stdin=big)
            assert done.exit_code == 0
            assert (await box.exec(["sh", "-c", "echo $A"], env={"A": "b"})).stdout == "b\n"
            assert (await box.exec(["python", "-c", "print(6 * 7)"])).stdout == "42\n"
            await box.close()
            with pytest.raises(SandboxGone):
                await box.exec(["true"])

    asyncio.run(play())


def test_a_command_past_its_deadline_dies_with_its_children(
    state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    script = "setsid sh -c 'setsid sleep 97 & sleep 98' & (sleep 99 &) ; sleep 100"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(MACHINE)
            before = processes.all()
            with pytest.raises(SandboxTimeout, match=r"ran longer than 0\.5 s"):
                await box.exec(["sh", "-c", script], timeout=0.5)
            left = set(await asyncio.to_thread(processes.all)) - set(before)
            assert left == set()
            assert (await box.exec(["echo", "still here"])).stdout == "still here\n"

    asyncio.run(play())


def test_a_cancelled_command_dies(state_dir: Path, isolation: Isolation, processes: Processes) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(MACHINE)
            before = set(processes.all())
            task = asyncio.create_task(box.exec(["sh", "-c", "setsid sleep 99 & sleep 99"]))
            while not set(processes.all()) - before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while set(processes.all()) - before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(play())


def test_absolute_paths_live_under_the_root(state_dir: Path, isolation: Isolation, tmp_path: Path) -> None:
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "a.txt").write_text("a")
    (tmp_path / "up" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "up" / "run.sh").chmod(0o755)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(MACHINE)
            await box.write("/loaded/x/data.txt", b"data")
            assert await box.read("/loaded/x/data.txt") == b"data"
            assert (await box.exec(["cat", "/loaded/x/data.txt"])).stdout == "data"
            assert (await box.exec(["cat", "data.txt"], cwd="/loaded/x")).stdout == "data"
            await box.upload(tmp_path / "up", "/loaded/up")
            assert (await box.exec(["/loaded/up/run.sh"])).stdout == "ran\n"
            await box.exec(
                ["sh", "-c", "echo made > made.txt; ln -s /no/such leak; ln -s up/sub/a.txt in"], cwd="/loaded"
            )
            await box.download("/loaded", tmp_path / "down")
            assert (tmp_path / "down" / "up" / "sub" / "a.txt").read_text() == "a"
            assert (tmp_path / "down" / "in").read_text() == "a"
            assert (tmp_path / "down" / "made.txt").read_text() == "made\n"
            assert not (tmp_path / "down" / "leak").exists()
            with pytest.raises(FileNotFoundError):
                await box.read("/loaded/nothing")
            with pytest.raises(IsADirectoryError):
                await box.read("/loaded/x")
            with pytest.raises(ValueError, match="larger than 2 bytes"):
                await box.read("/loaded/x/data.txt", max_bytes=2)
            await box.exec(["mkfifo", "pipe"], cwd="/loaded")
            with pytest.raises(ValueError, match="no regular file"):
                await box.read("/loaded/pipe")

    asyncio.run(play())


def test_no_path_leads_out(state_dir: Path, isolation: Isolation, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("outside")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(MACHINE)
            await box.exec(["sh", "-c", f"ln -s {tmp_path} dir; ln -s {secret} file; ln -s ../../../../../.. up"])
            for path in (f"../../../../../../../../{secret}", "dir/secret", "file", f"up{secret}"):
                with pytest.raises(OSError):
                    await box.read(path)
            await box.write("dir/secret", b"inside")
            await box.write("file", b"inside")
            assert secret.read_text() == "outside"
            assert await box.read(str(secret)) == b"inside"

    asyncio.run(play())


PARTS = st.sampled_from(["a", "b", "..", ".", "", "link-up", "link-abs", "link-self", "f"])


@given(st.lists(PARTS, max_size=12), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_path_never_leaves_its_root(parts: list[str], make: bool) -> None:
    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "root"
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "f").write_text("f")
        outside = Path(top) / "outside"
        (root / "link-up").symlink_to("../../../..")
        (root / "a" / "link-abs").symlink_to("/a/../../../a")
        (root / "link-self").symlink_to("link-self")
        flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
        try:
            fd = open_in(root, "/".join(parts), flags, make_folders=make)
        except OSError:
            pass
        else:
            found = Path(f"/proc/self/fd/{fd}").readlink()
            os.close(fd)
            assert found == root.resolve() or root.resolve() in found.parents
        assert sorted(path.name for path in Path(top).iterdir()) == ["root"]
        assert not outside.exists()
