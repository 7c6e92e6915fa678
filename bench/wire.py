"""What the wire costs: no-op episodes and idle sessions against stock OpenEnv servers and a bare echo, in one run.

    python bench/wire.py [--quick] [--json FILE] [--only SERVER ...]

Every server runs in a process of its own, the client in another. CPU is the server process's, from /proc. Ratios
between the servers of one run mean more than the figures: the machine may be busy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_S = 2.0
SERVERS = ("agentenv", "echo", "openenv-plain", "openenv-mcp")
TITLES = {
    "agentenv": "AgentEnv",
    "echo": "uvicorn echo (floor)",
    "openenv-plain": "openenv Environment",
    "openenv-mcp": "openenv MCPEnvironment",
}


@dataclass(frozen=True)
class Load:
    """No-op episodes at one concurrency."""

    server: str
    sessions: int
    episodes: int
    per_second: float
    p50_ms: float
    p95_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Idle:
    """Sessions that do nothing."""

    server: str
    kind: str
    sessions: int
    kib: float
    threads: int
    idle_cpu_percent: float


class Server:
    """A server process."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "wire_servers.py"), kind], stdout=subprocess.PIPE, text=True, cwd=HERE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            self.stop()
            raise RuntimeError(f"the server {kind} did not start")
        self.port = int(line)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def status(self, key: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
        raise KeyError(key)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def running(kind: str) -> Iterator[Server]:
    server = Server(kind)
    try:
        yield server
    finally:
        server.stop()


def client(task: dict[str, Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "wire_client.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(task) + "\n")
    process.stdin.flush()
    return process


def load(server: Server, sessions: int, seconds: float) -> Load:
    def play(duration: float) -> dict[str, Any]:
        process = client({"port": server.port, "mode": "episodes", "sessions": sessions, "seconds": duration})
        out, _ = process.communicate(timeout=180)
        return dict(json.loads(out))

    play(0.3)  # warm up
    before = server.cpu_s()
    got = play(seconds)
    cpu = server.cpu_s() - before
    return Load(
        server.kind,
        sessions,
        got["episodes"],
        got["episodes"] / got["wall"],
        got["p50_ms"],
        got["p95_ms"],
        cpu * 1000 / got["episodes"],
    )


def idle(server: Server, sessions: int, *, reset: bool) -> Idle:
    client({"port": server.port, "mode": "episodes", "sessions": 4, "seconds": 0.1}).communicate(timeout=60)
    before = server.status("VmRSS")
    process = client({"port": server.port, "mode": "idle", "sessions": sessions, "reset": reset})
    assert process.stdout is not None
    assert process.stdin is not None
    if not process.stdout.readline():
        process.wait()
        raise RuntimeError(f"{server.kind} did not hold {sessions} sessions")
    held = server.status("VmRSS") - before
    threads = server.status("Threads")
    cpu = server.cpu_s()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_IDLE_S)
    burnt = server.cpu_s() - cpu
    process.stdin.close()
    process.wait()
    process.stdout.close()
    kind = "open idle episode" if reset else "idle session"
    return Idle(server.kind, kind, sessions, held / sessions, threads, burnt / _IDLE_S * 100)


def measure(servers: tuple[str, ...], *, quick: bool) -> tuple[list[Load], list[Idle]]:
    loads: list[Load] = []
    idles: list[Idle] = []
    seconds = 1.0 if quick else 4.0
    for kind in servers:
        with running(kind) as server:
            for sessions in (1, 32) if quick else (1, 32, 256):
                loads.append(load(server, sessions, seconds))
                say(f"{kind}, {sessions} sessions: {loads[-1].cpu_ms:.2f} CPU-ms")
        light = kind in ("agentenv", "echo")
        many = (1_000 if quick else 10_000) if light else (50 if quick else 300)
        for reset in (False, True):
            if (kind == "echo" and reset) or (quick and not light and not reset):
                continue
            with running(kind) as server:  # memory is compared in a fresh process
                idles.append(idle(server, many if not reset else min(many, 2_000), reset=reset))
                say(f"{kind}, {idles[-1].kind}: {idles[-1].kib:.1f} KiB")
    return loads, idles


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def report(loads: list[Load], idles: list[Idle]) -> None:
    ours = {item.sessions: item for item in loads if item.server == "agentenv"}
    print(f"\nno-op episodes (connect, reset, list_tools, call, end_turn, close), Python {platform.python_version()}")
    print(f"{'server':24} {'sessions':>8} {'episodes/s':>10} {'p50 ms':>8} {'p95 ms':>8} {'CPU-ms':>8} {'of ours':>8}")
    for item in loads:
        base = ours.get(item.sessions)
        ratio = f"{item.cpu_ms / base.cpu_ms:.2f}x" if base and base.cpu_ms else ""
        print(
            f"{TITLES[item.server]:24} {item.sessions:8} {item.per_second:10.0f} {item.p50_ms:8.1f} "
            f"{item.p95_ms:8.1f} {item.cpu_ms:8.2f} {ratio:>8}"
        )
    print(f"\n{'server':24} {'what':18} {'count':>6} {'KiB each':>9} {'threads':>8} {'CPU %':>6}")
    for held in idles:
        print(
            f"{TITLES[held.server]:24} {held.kind:18} {held.sessions:6} {held.kib:9.1f} "
            f"{held.threads:8} {held.idle_cpu_percent:6.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything, within 40 seconds")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=SERVERS, help="measure these servers only")
    arguments = parser.parse_args()
    servers = tuple(arguments.only)
    try:
        import openenv  # noqa: F401
    except ImportError:
        servers = tuple(kind for kind in servers if not kind.startswith("openenv"))
        say("openenv is not installed (dependency group interop): its servers are left out")
    loads, idles = measure(servers, quick=arguments.quick)
    report(loads, idles)
    if arguments.json:
        found = {"episodes": [asdict(item) for item in loads], "idle": [asdict(item) for item in idles]}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
