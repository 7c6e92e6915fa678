"""What an env costs on Docker: create, ready, close, beside a plain `docker run` of the image; many at once.

    python bench/docker_start.py [--runs 20] [--episodes 200] [--json FILE]

Needs a Docker engine (`.ci/docker-up` makes one). Wall times in milliseconds; "at once" are whole GridSim episodes
in as many sessions through the bundle's server, with what they left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.episode import code_runner
from agent_env.plugin.building.context import read
from agent_env.plugin.sandbox import BuildContext, CodeRequest, SandboxSpec
from agent_env.plugin.sandboxing.probe import http_status
from agent_env.sandboxes.docker.images import tag_of
from agent_env.sandboxes.docker.provider import DockerProvider
from episodes import free_port, play, wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GRIDSIM = Path(__file__).resolve().parents[1] / "examples" / "gridsim"
ENV = BuildContext(GRIDSIM / "envs" / "gridsim")
HEALTH = "/.well-known/agent-env.json"


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


async def measure(name: str, once: Callable[[], Awaitable[None]], runs: int, floor: float | None) -> dict[str, Any]:
    await once()
    times: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        await once()
        times.append(1000 * (time.perf_counter() - began))
    times.sort()
    p50, p95 = statistics.median(times), times[int(0.95 * (runs - 1))]
    ratio = f"  {p50 / floor:5.2f} x `docker run`" if floor else ""
    print(f"{name:46} p50 {p50:7.0f}  p95 {p95:7.0f}{ratio}", flush=True)
    return {"name": name, "p50_ms": p50, "p95_ms": p95}


def plain_run(folder: Path, image: str) -> Callable[[], Awaitable[None]]:
    """`docker run` and `docker rm -f` by the command line, the same image with a socket in a shared folder."""
    uds = folder / "s"

    async def once() -> None:
        uds.unlink(missing_ok=True)
        arguments = ["run", "-d", "--network", "none", "-v", f"{folder}:/run/agentenv"]
        container = await asyncio.to_thread(docker, *arguments, "-e", "AGENTENV_UDS=/run/agentenv/s", image)
        while await http_status(str(uds), HEALTH, timeout=5) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.to_thread(docker, "rm", "-f", container)

    return once


async def floor_of_docker(runs: int) -> float:
    """Milliseconds of `plain_run`, the median."""
    async with DockerProvider() as provider:
        await provider.prepare(ENV, progress=print)
        with tempfile.TemporaryDirectory(prefix="ae-") as name:
            return float((await measure_plain(Path(name), runs))["p50_ms"])


async def measure_plain(folder: Path, runs: int) -> dict[str, Any]:
    await asyncio.to_thread(folder.chmod, 0o777)
    image = tag_of(read(ENV.path, ENV.dockerfile, provider="docker"))
    return await measure("docker run + ready + docker rm -f", plain_run(folder, image), runs, None)


async def starts(runs: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with DockerProvider() as provider:
        await provider.prepare(ENV, progress=print)
        with tempfile.TemporaryDirectory(prefix="ae-") as name:
            folder = Path(name)
            rows.append(await measure_plain(folder, runs))
            floor = float(rows[0]["p50_ms"])

            async def cold() -> None:
                await (await provider.create(SandboxSpec(image=ENV))).close()

            rows.append(await measure("provider: create + ready + close", cold, runs, floor))
            boxes: list[Any] = []

            async def create() -> None:
                boxes.append(await provider.create(SandboxSpec(image=ENV)))

            rows.append(await measure("provider: create + ready (what a reset waits for)", create, runs, floor))
            await asyncio.gather(*(box.close() for box in boxes))
            async with await provider.create(SandboxSpec(image=ENV)) as box:

                async def command() -> None:
                    await box.exec(["python", "-c", "pass"])

                rows.append(await measure("exec of a Python that does nothing", command, runs, floor))
            (folder / "verify.py").write_text("def verify():\n    return []\n")
            request = CodeRequest(folder, "verify.py", "verify", (), Path(code_runner.__file__))

            async def code() -> None:
                await provider.run_code(ENV, request)

            rows.append(await measure("run_code", code, runs, floor))
    return rows


def at_once(episodes: int) -> dict[str, Any]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(Path(sys.executable).parent / "agentenv"), "serve", str(GRIDSIM), "--port", str(port)]
    command += ["--sandbox", "docker", "--max-concurrent-envs", str(episodes)]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(url, server)
            found = play(url, episodes, episodes)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(120)
    left = docker("ps", "-aq", "--filter", "label=agentenv=docker").split()
    row = {
        "name": f"{episodes} episodes at once",
        "wall_s": found["wall_s"],
        "errors": len(found["errors"]),
        "rewards": len(found["rewards"]),
        "left": len(left),
    }
    print(
        f"{row['name']:46} {row['wall_s']:.1f} s, {episodes / row['wall_s']:.1f} a second, "
        f"{row['errors']} errors, {row['left']} containers left"
    )
    for error in sorted(set(found["errors"]))[:5]:
        print(f"  {error[:300]}")
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result = asyncio.run(starts(given.runs))
    if given.episodes:
        result.append(at_once(given.episodes))
    if given.json:
        given.json.write_text(json.dumps(result, indent=2))
