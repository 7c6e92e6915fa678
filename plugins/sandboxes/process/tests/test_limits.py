"""Limits of cpu, memory and processes, kept with the cgroups of this machine, whichever version it has.

The fixture ``cells`` fails a test that leaves a cgroup, ``processes`` one that leaves a process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.episode.sandboxed_env import SandboxedEnv
from agent_env.errors import CodeError, SandboxError, SandboxGone, SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import CodeRequest, HostImage, Resources, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.plugin.sandbox import BuildContext, Isolation, Sandbox

    EnvFolder = Callable[..., BuildContext]
    Cells = Any
    Processes = Any

pytestmark = pytest.mark.cgroups

EAT = "print(len(bytearray(200 << 20)))"
MANY = ["sh", "-c", "for i in $(seq 40); do sleep 30 & done"]
EATER = """
import subprocess, sys
class Eater(Handler):
    def do_GET(self):
        if self.path == "/eat":
            eat = "import time; kept = bytearray(40 << 20); print(len(kept)); time.sleep(60)"
            children = [subprocess.Popen([sys.executable, "-c", eat]) for _ in range(4)]
            [child.wait() for child in children]
        super().do_GET()
Handler = Eater
"""
BOMBER = """
import time
class Bomber(Handler):
    def do_GET(self):
        if self.path == "/bomb" and os.fork() == 0:
            while True:
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.001)
        super().do_GET()
Handler = Bomber
"""
GREEDY = """
    @tool
    def eat(self) -> str:
        "Takes memory."
        return str(len(bytearray(200 << 20)))

if __name__"""
RUNNER = """
import json, sys
def main():
    request = json.load(sys.stdin)
    kept = bytearray(request["args"][0] << 20)
    json.dump({"ok": len(kept) >> 20}, sys.stdout)
"""
LIFT = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
if sys.argv[1] == "unshare":
    libc.unshare(0x10000000 | 0x00020000 | 0x02000000)  # user, mount and cgroup namespaces
mounted = 0
for kind, data in ((b"cgroup2", None), (b"cgroup", b"memory")):
    folder = "/tmp/" + kind.decode() + sys.argv[1]
    os.mkdir(folder)
    mounted += libc.mount(b"none", folder.encode(), kind, 0, data) == 0
    for path, _, files in os.walk(folder):
        for name, text in (("memory.max", "max"), ("memory.limit_in_bytes", "-1"), ("cgroup.procs", "0")):
            try:
                open(path + "/" + name, "w").write(text)
            except OSError:
                pass
print("mounted", mounted, flush=True)
print(len(bytearray(200 << 20)))
"""


async def get(box: Sandbox, path: str) -> int:
    endpoint = await box.endpoint()
    transport = httpx.AsyncHTTPTransport(uds=endpoint.uds) if endpoint.uds else None
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=30) as client:
        return (await client.get(endpoint.url + path)).status_code


async def call(box: Sandbox, tool: str) -> None:
    endpoint = await box.endpoint()
    body: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}},
    }
    headers = {"Accept": "application/json, text/event-stream"}
    transport = httpx.AsyncHTTPTransport(uds=endpoint.uds)
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=30) as client:
        (await client.post(f"{endpoint.url}/mcp", json=body, headers=headers)).raise_for_status()


def quota(folder: Path) -> str:
    """The share of a CPU that a sandbox's cgroup may use."""
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        if (folder / name).exists():
            return (folder / name).read_text().split()[0]
    return ""


def test_commands_of_an_idle_sandbox_are_held_to_its_limits(
    state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes
) -> None:
    asked = Resources(cpu=0.5, memory_mb=96, pids=24)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            assert provider.capabilities.limits == {"cpu", "memory_mb", "pids"}
            free = await provider.create(SandboxSpec(image=HostImage(), serves=False))
            assert cells.left() == []
            box = await provider.create(SandboxSpec(image=HostImage(), serves=False, resources=asked))
            assert "50000" in [quota(path.parent) for path in cells.boxes()]
            done = await box.exec(["python", "-c", EAT])
            assert (done.exit_code, done.stderr) == (137, "killed: it used more than its 96 MiB of memory\n")
            done = await box.exec(MANY)
            assert "fork" in done.stderr.lower()
            assert (await free.exec(["python", "-c", EAT])).stdout == "209715200\n"
            async with ProcessProvider(state_dir=state_dir, isolation=isolation) as other:
                seen = await other.attach(box.id)
                assert (
                    "fork" in (await seen.exec(["sh", "-c", "for i in $(seq 40); do sleep 30 & done"])).stderr.lower()
                )
            assert await box.status() == "running"
            await asyncio.gather(box.close(), box.close())
            await box.close()
            assert cells.boxes() == []

    asyncio.run(play())


def test_an_env_whose_processes_use_too_much_memory_ends_whole_and_says_why(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes
) -> None:
    words = "killed: it used more than its 100 MiB of memory"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            idle = set(processes.all())
            box = await provider.create(SandboxSpec(image=env_folder(EATER), resources=Resources(memory_mb=100)))
            with pytest.raises(httpx.HTTPError):
                await get(box, "/eat")
            assert await box.exited() == 137
            async with asyncio.timeout(20):  # the others may take a moment longer than the one that is known to be dead
                while set(processes.all()) - idle:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert words in await box.logs()
            assert words in str(await SandboxedEnv("eater", box).why_gone())
            with pytest.raises(SandboxGone, match=words):
                await box.exec(["true"])
            await box.close()
            with pytest.raises(SandboxGone, match=words):
                await box.read("x")

    asyncio.run(play())


def test_an_env_that_never_comes_up_says_which_limit_was_too_little(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes
) -> None:
    forks = "import time\nfor i in range(40): os.fork() or time.sleep(60)"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            for body, limits, words in (
                ("kept = bytearray(200 << 20)", Resources(memory_mb=50), "it used more than its 50 MiB of memory"),
                (forks, Resources(pids=12), "it reached its limit of 12 processes"),
            ):
                with pytest.raises(SandboxNotReady, match=words) as caught:
                    await provider.create(SandboxSpec(image=env_folder(body), resources=limits))
                assert not caught.value.retryable

    asyncio.run(play())


def test_a_fork_bomb_stays_in_its_sandbox_and_ends_with_it(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            idle = set(processes.all())
            for limits in (Resources(pids=30), Resources(pids=30, cpu=0.5, memory_mb=300)):
                box = await provider.create(SandboxSpec(image=env_folder(BOMBER), resources=limits))
                await get(box, "/bomb")
                full = {*cells.boxes()}
                while len((max(full) / "cgroup.procs").read_text().split()) < 30:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert len(set(processes.all()) - idle) <= 32
                await box.close()
                assert set(processes.all()) - idle == set()

    asyncio.run(play())


def test_each_prefork_child_has_limits_of_its_own(
    prefork_folder: Callable[[], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    cells: Cells,
    processes: Processes,
) -> None:
    image = prefork_folder()
    source = (image.path / "server.py").read_text()
    (image.path / "server.py").write_text(source.replace("\nif __name__", GREEDY))
    words = "killed: it used more than its 100 MiB of memory"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            free = await provider.create(SandboxSpec(image=image))
            assert cells.left() == []
            spec = SandboxSpec(image=image, resources=Resources(memory_mb=100, pids=20, cpu=1.0))
            one, other = await asyncio.gather(provider.create(spec), provider.create(spec))
            assert one.isolation == ("shared" if isolation == "namespace" else "none")
            assert len(cells.boxes()) == 2 * len(cells.left())
            assert all(len((box / "cgroup.procs").read_text().split()) == 1 for box in cells.boxes())
            with pytest.raises(httpx.HTTPError):
                await call(one, "eat")
            assert await one.exited() == 137
            assert words in await one.logs()
            await call(free, "eat")
            assert await other.status() == "running"
            await one.close()
            await other.close()
            assert cells.boxes() == []

    asyncio.run(play())


def test_defaults_are_for_who_asks_for_nothing_verifiers_included(
    state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "runner.py").write_text(RUNNER)
    (tmp_path / "verify.py").write_text("")

    def request(size: int) -> CodeRequest:
        return CodeRequest(tmp_path, "verify.py", "verify", (size,), tmp_path / "runner.py")

    async def play() -> None:
        defaults: dict[str, Any] = {"memory_mb": 100, "pids": 50, "cpu": 2.0}
        async with ProcessProvider(state_dir=state_dir, isolation=isolation, **defaults) as provider:
            box = await provider.create(SandboxSpec(image=HostImage(), serves=False))
            assert (await box.exec(["python", "-c", EAT])).exit_code == 137
            more = SandboxSpec(image=HostImage(), serves=False, resources=Resources(memory_mb=400))
            assert (await (await provider.create(more)).exec(["python", "-c", EAT])).exit_code == 0
            assert await provider.run_code(HostImage(), request(10)) == 10
            with pytest.raises(CodeError, match="killed: it used more than its 100 MiB of memory"):
                await provider.run_code(HostImage(), request(200))

    asyncio.run(play())


def test_an_isolated_env_cannot_lift_its_limits(
    state_dir: Path, need_bubblewrap: None, cells: Cells, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="namespace") as provider:
            spec = SandboxSpec(image=HostImage(), serves=False, resources=Resources(memory_mb=100))
            box = await provider.create(spec)
            await box.write("lift.py", LIFT.encode())
            for way in ("plain", "unshare"):
                done = await box.exec(["python", "lift.py", way])
                assert done.exit_code == 137, done
                assert done.stdout.startswith("mounted")

    asyncio.run(play())


def test_a_plain_env_that_leaves_its_cgroup_is_ended_nevertheless(
    env_folder: EnvFolder, state_dir: Path, cells: Cells, processes: Processes
) -> None:
    body = """
import subprocess
left = 0
for home in os.environ["HOMES"].split(":"):
    try:
        open(home + "/cgroup.procs", "w").write("0")
        left += 1
    except OSError:
        pass
print("left", left, flush=True)
subprocess.Popen(["sh", "-c", "setsid sleep 96 & exec sleep 97"])
"""
    homes = ":".join(one.home for one in cells.here.hierarchies)
    spec = SandboxSpec(image=env_folder(body), env={"HOMES": homes}, resources=Resources(memory_mb=100, pids=20))

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="none") as provider:
            idle = set(processes.all())
            box = await provider.create(spec)
            assert "left" in await box.logs()
            await box.close()
            assert set(processes.all()) - idle == set()
            assert cells.boxes() == []

    asyncio.run(play())


def test_many_at_once_and_cancelled_ones_leave_nothing(
    env_folder: EnvFolder, state_dir: Path, cells: Cells, processes: Processes
) -> None:
    spec = SandboxSpec(image=env_folder(), resources=Resources(memory_mb=100, pids=20, cpu=1.0))

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            tasks = [asyncio.create_task(provider.create(spec)) for _ in range(32)]
            for number, task in enumerate(tasks):
                if number % 2:
                    await asyncio.sleep(0.004)
                    task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            boxes = [box for box in done if not isinstance(box, BaseException)]
            assert len(boxes) >= 16
            await asyncio.gather(*(box.close() for box in boxes))
            while cells.boxes():  # noqa: ASYNC110 - nobody waits for the end of what was cancelled
                await asyncio.sleep(0.01)

    asyncio.run(play())


def test_closing_the_provider_ends_limited_creates_under_way(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, cells: Cells, processes: Processes
) -> None:
    spec = SandboxSpec(image=env_folder("import time; time.sleep(60)"), resources=Resources(memory_mb=100, cpu=1.0))

    async def play(moment: float) -> None:
        provider = ProcessProvider(state_dir=state_dir, isolation=isolation)
        await provider.start()
        creates = [asyncio.create_task(provider.create(spec)) for _ in range(4)]
        await asyncio.sleep(moment)
        await provider.close()
        assert all(isinstance(create.exception(), SandboxError) for create in creates)
        assert cells.left() == []

    for moment in (0.0, 0.001, 0.003, 0.1):
        asyncio.run(play(moment))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Resources(cpu=0.001), "cpu 0.001 is no quota"),
        (Resources(cpu=float("nan")), "cpu nan is no quota"),
        (Resources(cpu=float("inf")), "cpu inf is no quota"),
        (Resources(memory_mb=0), "memory_mb 0 is no limit"),
        (Resources(pids=-1), "pids -1 is no limit"),
        (Resources(disk_mb=100), "disk"),
        (Resources(memory_mb=1 << 60), "its limits cannot be kept: .*memory"),
    ],
)
def test_what_no_cgroup_can_keep_is_refused(state_dir: Path, cells: Cells, limits: Resources, words: str) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            with pytest.raises(SandboxUnsupported, match=words):
                await provider.create(SandboxSpec(image=HostImage(), serves=False, resources=limits))
            assert cells.boxes() == []

    asyncio.run(play())
