"""What a reset waits for, cold and from a warm pool, on each local provider: GridSim up to its first prompt.

    python bench/resets.py [--runs 20] [--sandbox process] [--sandbox docker]

Wall times in milliseconds, one reset after the other; a warm reset is timed when an env is ready. The floor beside
them is a bare Python process, started and ended; for Docker it is `docker run` of the env's image until its server
answers, and `docker rm -f`. Docker is left out where no engine answers (`.ci/docker-up` makes one).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.bundle import load_bundle
from agent_env.episode import Engine
from docker_start import docker, floor_of_docker
from episodes import floor

if TYPE_CHECKING:
    from collections.abc import Mapping

GRIDSIM = Path(__file__).resolve().parents[1] / "examples" / "gridsim"
WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "process, spawned": ("process", {"isolation": "none", "prefork": "false"}),
    "process, prefork": ("process", {"isolation": "none"}),
    "bubblewrap, spawned": ("process", {"isolation": "namespace", "prefork": "false"}),
    "bubblewrap, prefork": ("process", {"isolation": "namespace"}),
    "docker": ("docker", {}),
}


async def resets(sandbox: str, options: Mapping[str, str], warm: int, runs: int) -> list[float]:
    """Seconds of each."""
    times: list[float] = []
    bundle = load_bundle(GRIDSIM)
    async with Engine(bundle, sandbox=sandbox, sandbox_options={sandbox: dict(options)}, warm=warm) as engine:
        await engine.prepared()
        pool: Any = engine._services.deployer
        for number in range(runs + 1):
            while warm and not all(shelf.ready for shelf in pool._pool._shelves.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            episode = engine.episode(engine.bundle.task("eval", number % 200))
            began = time.perf_counter()
            await episode.start()
            times.append(time.perf_counter() - began)
            await episode.close()
    return sorted(times[1:])


def has_docker() -> bool:
    """Whether an engine answers."""
    try:
        docker("version")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sandbox", action="append", choices=["process", "docker"])
    chosen = parser.parse_args()
    wanted = set(chosen.sandbox or ["process", "docker"])
    if "docker" in wanted and not has_docker():
        print("docker: left out, for no engine answers")
        wanted.discard("docker")
    floors: dict[str, float] = {}
    if "process" in wanted:
        floors["process"] = await asyncio.to_thread(floor)
    if "docker" in wanted:
        floors["docker"] = await floor_of_docker(chosen.runs)
    print(f"\n{'reset':22} {'':5} {'p50 ms':>8} {'p95 ms':>8} {'x floor':>8}   floor ms")
    for name, (sandbox, options) in WAYS.items():
        if sandbox not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="ae-") as folder:
            for warm in (0, 4):
                times = await resets(sandbox, {**options, "state_dir": folder}, warm, chosen.runs)
                p50, p95 = 1000 * statistics.median(times), 1000 * times[int(0.95 * (len(times) - 1))]
                below = floors[sandbox]
                kind = "warm" if warm else "cold"
                print(f"{name:22} {kind:5} {p50:8.1f} {p95:8.1f} {p50 / below:8.2f}   {below:.1f}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
