"""What a sandbox of the process provider costs: create, ready, close; against a bare subprocess of the same env.

    python bench/process_start.py [--runs 30]

Wall times in milliseconds; CPU is what all processes spent for one sandbox, the server's part of it in brackets.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.episode import code_runner
from agent_env.plugin.sandbox import BuildContext, CodeRequest, SandboxSpec
from agent_env.plugin.sandboxing.probe import http_status
from agent_env.sandboxes.process.bwrap import find
from agent_env.sandboxes.process.provider import ProcessProvider
from cpu import CpuMeter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ENV = """
from agent_env.env import Env, tool

class Noop(Env, name="noop"):
    @tool
    def noop(self) -> str:
        "Nothing."
        return "ok"

if __name__ == "__main__":
    Noop.serve()
"""
HEALTH = "/.well-known/agent-env.json"


METER = CpuMeter("process-start")


def own_cpu() -> float:
    """CPU seconds of this process."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def env_folder(top: Path, *, prefork: bool) -> Path:
    folder = top / ("prefork" if prefork else "plain")
    folder.mkdir()
    (folder / "server.py").write_text(ENV)
    flag = "true" if prefork else "false"
    (folder / "agentenv.toml").write_text(f'[process]\ncommand = ["python", "server.py"]\nprefork = {flag}\n')
    return folder


async def bare(top: Path, runs: int) -> None:
    """The floor: the same env as a subprocess, polled every millisecond."""
    uds = str(top / "bare.sock")

    async def once() -> None:
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, str(top / "plain" / "server.py")], env={**os.environ, "AGENTENV_UDS": uds}
        )
        while await http_status(uds, HEALTH, timeout=5) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        process.kill()
        process.wait()
        with suppress(FileNotFoundError):
            os.unlink(uds)  # noqa: PTH108

    await measure("bare subprocess", once, runs)


FLOOR: dict[str, float] = {}


async def measure(name: str, once: Callable[[], Awaitable[None]], runs: int) -> None:
    await once()
    own, everything = own_cpu(), METER.seconds()
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        await once()
        times.append(1000 * (time.perf_counter() - start))
    own, everything = own_cpu() - own, METER.seconds() - everything
    spent = 1000 * everything / runs
    times.sort()
    p50, p95 = statistics.median(times), times[int(0.95 * (runs - 1))]
    FLOOR.setdefault("p50", p50)
    FLOOR.setdefault("cpu", spent)
    ratios = f"{p50 / FLOOR['p50']:5.2f} x wall {spent / FLOOR['cpu']:5.2f} x CPU"
    print(f"{name:34} p50 {p50:7.1f}  p95 {p95:7.1f}  CPU {spent:6.1f} ({1000 * own / runs:.1f})  {ratios}")


async def provider_case(name: str, top: Path, folder: Path, isolation: str, runs: int, *, code: bool = False) -> None:
    with tempfile.TemporaryDirectory(prefix="ae-") as state:
        provider = ProcessProvider(state_dir=Path(state), isolation=isolation)
        await provider.prepare(BuildContext(folder))
        request = CodeRequest(top, "verify.py", "verify", (), Path(code_runner.__file__))

        async def once() -> None:
            if code:
                await provider.run_code(BuildContext(folder), request)
            else:
                await (await provider.create(SandboxSpec(image=BuildContext(folder)))).close()

        await measure(name, once, runs)
        await provider.close()


async def side_by_side(folder: Path, isolation: str, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ae-") as state:
        async with ProcessProvider(state_dir=Path(state), isolation=isolation) as provider:
            await provider.prepare(BuildContext(folder))
            todo = iter(range(runs * 8))

            async def worker() -> None:
                for _ in todo:
                    await (await provider.create(SandboxSpec(image=BuildContext(folder)))).close()

            start = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(32)))
            print(f"prefork, 32 side by side, {isolation}: {runs * 8 / (time.perf_counter() - start):.0f} a second")


async def main(runs: int) -> None:
    METER.enter(os.getpid())
    print(f"CPU from {METER.how}")
    works = (await find())[0] is not None
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        (top / "verify.py").write_text("def verify():\n    return []\n")
        plain, prefork = env_folder(top, prefork=False), env_folder(top, prefork=True)
        await bare(top, runs)
        for isolation in ("none", "namespace") if works else ("none",):
            await provider_case(f"spawned, {isolation}", top, plain, isolation, runs)
            await provider_case(f"prefork, {isolation}", top, prefork, isolation, runs)
            await provider_case(f"run_code, {isolation}", top, plain, isolation, runs, code=True)
            await side_by_side(prefork, isolation, runs)
        if not works:
            print("bubblewrap does not work here: only plain processes were measured")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    try:
        asyncio.run(main(parser.parse_args().runs))
    finally:
        METER.close()
