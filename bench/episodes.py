"""What a whole GridSim episode costs on the process sandbox: one after the other and 32 at once, preforked and spawned.

    python bench/episodes.py [--quick] [--json FILE]

The server, its envs and its verifiers are measured together (CPU of the process tree); the client runs in a process of
its own. The floor beside them is a bare Python process, started and ended.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from cpu import CpuMeter

HERE = Path(__file__).parent
GRIDSIM = HERE.parent / "examples" / "gridsim"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server did not answer")


def play(url: str, sessions: int, episodes: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "episodes_client.py"), url, str(sessions), str(episodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return dict(json.loads(done.stdout))


def measure(bundle: Path, kind: str, options: list[str], loads: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Serve ``bundle`` and play each load of (sessions, episodes)."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(Path(sys.executable).parent / "agentenv"), "serve", str(bundle), "--port", str(port)]
    command += ["--max-concurrent-envs", "64", *options]
    meter = CpuMeter(kind.replace(" ", "-"))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        meter.enter(server.pid)
        try:
            wait_for(url, server)
            play(url, 2, 4)
            for sessions, episodes in loads:
                before = meter.seconds()
                found = play(url, sessions, episodes)
                cpu = meter.seconds() - before
                rows.append(row(kind, sessions, episodes, found, cpu, meter.how))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            meter.close()
    return rows


def row(kind: str, sessions: int, episodes: int, found: dict[str, Any], cpu: float, how: str) -> dict[str, Any]:
    times = sorted(found["times_s"])
    if found["errors"]:
        print(f"{kind}: {len(found['errors'])} errors, the first: {found['errors'][0]}", file=sys.stderr)
    return {
        "kind": kind,
        "sessions": sessions,
        "episodes": episodes,
        "errors": len(found["errors"]),
        "per_s": episodes / found["wall_s"],
        "p50_ms": 1000 * statistics.median(times),
        "p95_ms": 1000 * times[int(0.95 * (len(times) - 1))],
        "server_cpu_ms": 1000 * cpu / episodes,
        "client_cpu_ms": 1000 * found["client_cpu_s"] / episodes,
        "cpu_from": how,
    }


def floor() -> float:
    """Milliseconds to start and end a bare Python process."""
    times = []
    for _ in range(20):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def spawned_copy(folder: Path) -> Path:
    """GridSim without prefork."""
    copy = folder / "gridsim"
    shutil.copytree(GRIDSIM, copy)
    settings = copy / "envs" / "gridsim" / "agentenv.toml"
    settings.write_text(settings.read_text().replace("prefork = true", "prefork = false"))
    return copy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the episodes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    share = 5 if arguments.quick else 1
    bare = floor()
    with tempfile.TemporaryDirectory() as folder:
        spawned = spawned_copy(Path(folder))
        rows = [
            *measure(GRIDSIM, "prefork", [], [(1, 200 // share), (32, 1000 // share)]),
            *measure(GRIDSIM, "warm pool", ["--warm", "4"], [(1, 200 // share), (32, 1000 // share)]),
            *measure(spawned, "spawn", [], [(1, 50 // share), (32, 100 // share)]),
            *measure(
                spawned, "spawn plain", ["--sandbox-option", "isolation=none"], [(1, 50 // share), (32, 100 // share)]
            ),
        ]
    print(f"floor: a bare Python process {bare:.0f} ms; CPU from {rows[0]['cpu_from']}\n")
    heading = (
        "envs",
        "sessions",
        "episodes/s",
        "p50 ms",
        "p95 ms",
        "x floor",
        "server CPU-ms",
        "client CPU-ms",
        "errors",
    )
    print(("{:<12}" + "{:>14}" * 8).format(*heading))
    for r in rows:
        print(
            f"{r['kind']:<12}{r['sessions']:>14}{r['per_s']:>14.1f}{r['p50_ms']:>14.1f}{r['p95_ms']:>14.1f}"
            f"{r['p50_ms'] / bare:>14.2f}{r['server_cpu_ms']:>14.1f}{r['client_cpu_ms']:>14.2f}{r['errors']:>14}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"floor_ms": bare, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
