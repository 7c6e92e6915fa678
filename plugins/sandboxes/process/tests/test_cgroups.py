"""Where limits can be kept: on stand-ins for the cgroup file systems of other machines, which are folders of files.

What the kernel does with limits is tested in `test_limits` on the real ones of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SandboxUnsupported, UsageError
from agent_env.plugin.sandbox import HostImage, Resources, SandboxSpec
from agent_env.sandboxes.process import cgroups
from agent_env.sandboxes.process.cells import Cells
from agent_env.sandboxes.process.keeper import cells as low
from agent_env.sandboxes.process.limits import Limits
from agent_env.sandboxes.process.provider import ProcessProvider
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.cgroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Isolation

    EnvFolder = Callable[..., BuildContext]
    Processes = Any


@dataclass(frozen=True)
class Standin:
    """A stand-in: what /proc says, and folders in the place of cgroup file systems."""

    root: Path

    def own(self, *lines: str) -> None:
        """The content of /proc/self/cgroup."""
        (self.root / "proc" / "cgroup").write_text("".join(line + "\n" for line in lines))

    def mount(self, kind: str, options: str = "rw", *, shows: str = "/", at: str = "") -> Path:
        """A mounted file system; its folder."""
        folder = self.root / (at or f"{kind}-{options}")
        folder.mkdir(exist_ok=True)
        point = str(folder).replace(" ", "\\040")
        with (self.root / "proc" / "mountinfo").open("a") as file:
            file.write(f"30 1 0:26 {shows} {point} rw,nosuid shared:9 - {kind} none {options}\n")
        return folder

    @staticmethod
    def group(folder: Path, controllers: str = "cpu io memory pids") -> Path:
        """A cgroup of version 2."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.type"):
            (folder / name).write_text("")
        (folder / "cgroup.controllers").write_text(controllers)
        return folder


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standin:
    root = tmp_path / "a machine"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/root rw\nnonsense\n")
    monkeypatch.setattr(cgroups, "PROC", root / "proc")
    monkeypatch.setattr(cgroups, "SYSTEMD", root / "no systemd")
    return Standin(root)


def test_a_delegated_cgroup_of_version_2(standin: Standin) -> None:
    mount = standin.mount("cgroup2", shows="/user.slice")
    home = standin.group(mount / "me.scope")
    standin.own("0::/user.slice/me.scope")
    found = cgroups.look()
    assert found.limits == {"cpu", "memory_mb", "pids"}
    assert [(one.version, one.home) for one in found.hierarchies] == [(2, str(home))]
    # The second server in it finds itself where the first one moved its processes.
    standin.group(home / cgroups.LEAF, "")
    standin.own(f"0::/user.slice/me.scope/{cgroups.LEAF}")
    assert cgroups.look() == found


def test_one_without_the_cpu_controller_keeps_the_others(standin: Standin) -> None:
    home = standin.group(standin.mount("cgroup2") / "me.scope", "memory pids")
    standin.own("0::/me.scope")
    found = cgroups.look()
    assert found.limits == {"memory_mb", "pids"}
    assert str(home) in found.why_not["cpu"]


def test_version_1_and_a_machine_with_both(standin: Standin) -> None:
    standin.own("5:cpu,cpuacct:/me", "4:memory:/me", "1:name=systemd:/me", "0::/me")
    homes = [standin.mount("cgroup", f"rw,{names}") / "me" for names in ("cpu,cpuacct", "memory")]
    for home in homes:
        home.mkdir()
        (home / "cgroup.procs").write_text("")
    standin.group(standin.mount("cgroup2") / "me", "pids")
    found = cgroups.look()
    assert found.limits == {"cpu", "memory_mb", "pids"}
    assert [(one.version, one.controllers) for one in found.hierarchies] == [
        (1, ("cpu",)),
        (1, ("memory",)),
        (2, ("pids",)),
    ]


def test_systemd_has_to_delegate_it(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "SYSTEMD", standin.root)
    home = standin.group(standin.mount("cgroup2") / "me.scope")
    standin.own("0::/me.scope")
    assert "is not delegated" in cgroups.look().why_not["memory_mb"]
    try:
        os.setxattr(home, "user.delegate", b"1")
    except OSError:
        pytest.skip("the temp folder takes no extended attributes")
    assert cgroups.look().why_not == {}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ((), "no cgroup controller 'memory'"),
        (("0::/me",), "cgroup2 is not mounted here"),
        (("4:memory:/me", "0::/"), "'memory' is not mounted here"),
        (("0::/../outside",), "not mounted here"),
    ],
)
def test_without_a_writable_cgroup_limits_are_refused_in_words(
    standin: Standin, state_dir: Path, own: tuple[str, ...], words: str
) -> None:
    standin.own(*own)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            assert "memory_mb" not in provider.capabilities.limits
            spec = SandboxSpec(image=HostImage(), serves=False, resources=Resources(memory_mb=64))
            with pytest.raises(SandboxUnsupported, match=words) as caught:
                await provider.create(spec)
            assert "systemd-run" in str(caught.value)
            assert "-p Delegate=yes" in str(caught.value)
            assert "docker" in str(caught.value)
            await provider.create(SandboxSpec(image=HostImage(), serves=False))
        strict = ProcessProvider(state_dir=state_dir, memory_mb=64)
        with pytest.raises(SandboxUnsupported, match=rf"(?s)for all sandboxes \(memory_mb\).*{words}"):
            await strict.start()
        await strict.close()

    asyncio.run(play())


def test_one_that_cannot_be_written_is_named(standin: Standin) -> None:
    home = standin.group(standin.mount("cgroup2") / "me")
    standin.own("0::/me")
    (home / "cgroup.procs").unlink()
    assert f"{home} cannot be written" in cgroups.look().why_not["pids"]


def test_what_is_written_to_version_2(standin: Standin, tmp_path: Path) -> None:
    home = standin.group(standin.mount("cgroup2") / "me")
    standin.own("0::/me")
    group = tmp_path / "cafe"
    group.mkdir()

    async def play() -> None:
        cells = Cells(cgroups.look(), group)
        await cells.make("one", Limits(cpu=1.5, memory_mb=64, pids=20, beside=2), label="x", together=True)
        await cells.make("two", Limits(memory_mb=64), label="x", together=False)

    asyncio.run(play())
    run = home / "agentenv-cafe"
    assert low.runs(str(group)) == [str(run)]
    assert (home / cgroups.LEAF).is_dir()
    one = {path.name: path.read_text() for path in (run / "one").iterdir() if path.is_file()}
    assert one == {
        "memory.max": str(64 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "22",
        "cpu.max": "150000 100000",
    }
    two = {path.name for path in (run / "two").iterdir()}
    assert two == {"memory.max", "memory.swap.max", "box"}


@given(st.lists(st.text(max_size=60), max_size=4), st.lists(st.text(max_size=120), max_size=4))
def test_whatever_the_kernel_says_is_read_without_a_crash(own: list[str], mounts: list[str]) -> None:
    import tempfile

    before = cgroups.PROC
    with tempfile.TemporaryDirectory() as folder:
        cgroups.PROC = Path(folder)
        try:
            Path(folder, "cgroup").write_text("\n".join(own), errors="replace")
            Path(folder, "mountinfo").write_text("\n".join(mounts), errors="replace")
            assert cgroups.look().limits == set()
        finally:
            cgroups.PROC = before


@pytest.mark.parametrize("options", [{"memory_mb": 5}, {"pids": 1}, {"cpu": 0}, {"cpu": "inf"}, {"memory_mb": "much"}])
def test_defaults_are_typed(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        ProcessProvider(**options)


# -- the real ones ----------------------------------------------------------------------------------------------------


def test_a_busy_cgroup_is_emptied_and_removed(cells: Any) -> None:
    for one in cells.here.hierarchies:
        folder = Path(one.home) / "agentenv-test-busy"
        (folder / low.BOX / "deeper").mkdir(parents=True)
        children = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
        try:
            for child, place in zip(children, (folder, folder / low.BOX, folder / low.BOX / "deeper"), strict=True):
                (place / "cgroup.procs").write_text(str(child.pid))
            assert len(low.pids(str(folder))) == 3
            assert low.remove([str(folder)], 10.0)
            assert low.remove([str(folder)], 0.0)
        finally:
            codes = [child.wait() for child in children]
        assert codes == [-signal.SIGKILL] * 3


SERVER = """
import asyncio, sys
from pathlib import Path
from agent_env.plugin.sandbox import BuildContext, HostImage, Resources, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

async def main():
    state, isolation, plain, prefork = sys.argv[1:]
    provider = ProcessProvider(state_dir=state, isolation=isolation)
    limits = Resources(memory_mb=200, pids=30, cpu=1.0)
    for folder in (plain, prefork):
        await provider.create(SandboxSpec(image=BuildContext(Path(folder)), resources=limits))
    box = await provider.create(SandboxSpec(image=HostImage(), serves=False, resources=limits))
    await box.exec(["sh", "-c", "setsid sleep 99 >/dev/null 2>&1 &"])
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("kill_keepers", [False, True])
def test_a_killed_server_leaves_no_cgroup(
    env_folder: EnvFolder,
    prefork_folder: Callable[[], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    cells: Any,
    processes: Processes,
    run_python: Callable[..., subprocess.Popen[str]],
    kill_keepers: bool,
) -> None:
    server = run_python(SERVER, str(state_dir), isolation, str(env_folder().path), str(prefork_folder().path))
    assert server.stdout is not None
    assert server.stdout.readline() == "up\n"
    assert len(cells.boxes()) == 3 * len(cells.left())
    keepers = [pid for pid in processes.all() if b"keeper.main" in cmdline(pid)]
    if kill_keepers:
        for pid in keepers:  # so that none tidies up once the server is gone
            os.kill(pid, signal.SIGSTOP)
    server.kill()
    if kill_keepers:
        for pid in keepers:
            with contextlib.suppress(ProcessLookupError):  # it went with the one that started it
                os.kill(pid, signal.SIGKILL)
        server.wait()
        assert cells.left() != []

        async def next_server() -> None:
            async with ProcessProvider(state_dir=state_dir, isolation=isolation):
                assert cells.left() == []

        asyncio.run(next_server())
    deadline = time.monotonic() + 20
    while (cells.left() or any(state_dir.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert cells.left() == []
    assert list(state_dir.iterdir()) == []


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_sandbox_ended_by_another_server_leaves_no_cgroup(
    env_folder: EnvFolder, state_dir: Path, cells: Any, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as owner, ProcessProvider(state_dir=state_dir) as other:
            spec = SandboxSpec(image=env_folder(), resources=Resources(pids=30))
            box = await owner.create(spec)
            assert len(cells.boxes()) == 1
            assert await other.destroy(box.id)
            assert cells.boxes() == []
            await box.close()

    asyncio.run(play())


def test_a_limited_sandbox_that_expires_leaves_no_cgroup(state_dir: Path, cells: Any, processes: Processes) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            spec = SandboxSpec(image=HostImage(), serves=False, resources=Resources(pids=30), ttl_s=0.5)
            box = await provider.create(spec)
            await box.exec(["sh", "-c", "setsid sleep 99 >/dev/null 2>&1 &"])
            deadline = time.monotonic() + 20
            while cells.boxes() and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert cells.boxes() == []
            assert await box.status() == "gone"

    asyncio.run(play())
