"""Creates of all clouds go through one bucket for each account, which the processes of a machine share."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.registry import default_registry
from agent_env.testing.sandbox_env import write_env

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_env.plugin.sandbox import SandboxProvider

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(300)

RATE = {"e2b": "creates_per_s", "aenv": "creates_per_s", "modal": "create_rate", "daytona": "creates_per_s"}
CREATES = """
import asyncio, json, sys
from pathlib import Path
from agent_env.episode.providers import Providers
from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.registry import default_registry

async def main(name, options, folder, count):
    async with Providers(default_registry(), name, {name: options}).make(None) as provider:
        spec = SandboxSpec(BuildContext(Path(folder)), serves=False)
        for box in await asyncio.gather(*(provider.create(spec) for _ in range(count))):
            await box.close()

asyncio.run(main(*json.loads(sys.argv[1])))
"""


@pytest.fixture
def pace_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temp directory of this test's own, which holds the pace and nothing of another test."""
    with tempfile.TemporaryDirectory(prefix="ae-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


@pytest.fixture
def env(pace_folder: Path) -> BuildContext:
    return BuildContext(write_env(pace_folder / "answers"))


def options(cloud: Place, folder: Path, **changes: str) -> dict[str, str]:
    own = {"pace_dir": str(folder / "pace")} if "pace_dir" in cloud.options else {}
    return {**cloud.options, **own, **changes}


def bucket(folder: Path) -> float:
    """The monotonic time from which on the next create may begin; there is one bucket, and locks of builds."""
    file, *locks = sorted(folder.rglob("*.rate"), key=lambda path: len(path.name))
    assert all(lock.name.startswith(f"{file.stem}-") for lock in locks)
    value: float = struct.unpack("d", file.read_bytes())[0]
    return value


def provider(cloud: Place, given: dict[str, str]) -> SandboxProvider:
    from agent_env.episode.providers import Providers

    return Providers(default_registry(), cloud.name, {cloud.name: given}).make(None)


def test_two_processes_take_turns_from_one_bucket(cloud: Place, pace_folder: Path, env: BuildContext) -> None:
    import json

    # Nothing saved up during the start of the processes: each turn is waited for.
    burst = {"burst": "1"} if cloud.name in {"e2b", "aenv"} else {}
    given = options(cloud, pace_folder, **{RATE[cloud.name]: "4"}, **burst)
    request = json.dumps([cloud.name, given, str(env.path), 4])
    # The name is among the words of the command, by which the stand-in's patch of its SDK knows it.
    command = [sys.executable, "-c", CREATES, request]
    variables = {**cloud.environment, "TMPDIR": str(pace_folder)}
    began = time.monotonic()
    both = [subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    # Eight turns of a quarter of a second, of which a first few may follow each other at once.
    assert bucket(pace_folder) >= began + (8 - 5) * 0.25
    assert cloud.running() == []


def test_a_time_that_the_service_names_is_waited(
    cloud: Place, pace_folder: Path, env: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the SDK where it does so by itself, else by the provider, and then by all processes."""
    if cloud.name == "aenv":
        pytest.skip("the SDK repeats no request to a server without idempotency keys, and hides the header")
    for variable, value in cloud.variables.items():
        monkeypatch.setenv(variable, value)

    async def create() -> tuple[float, float]:
        async with provider(cloud, options(cloud, pace_folder)) as one:
            await one.prepare(env)
            refuse(cloud, seconds=3)
            began = time.monotonic()
            async with await one.create(SandboxSpec(env, serves=False)):
                return began, time.monotonic()

    began, ended = asyncio.run(create())
    assert ended >= began + 3
    if cloud.name == "daytona":
        assert bucket(pace_folder) >= began + 3
    assert cloud.running() == []


def refuse(cloud: Place, seconds: int) -> None:
    """The next create is answered with: too many, come again in so many seconds."""
    faults: Any = cloud.service.faults
    if cloud.name == "modal":
        from agent_env.sandboxes.modal.standin.faults import rate_limit

        faults.refusals = [rate_limit(float(seconds))]
    elif cloud.name == "daytona":
        faults.rate_limit, faults.retry_after = 1, str(seconds)
    else:
        from agent_env.sandboxes.e2b.testing.faults import Fault

        faults.add(Fault("create", status=429, message="slow down", retry_after=seconds))


def test_a_queued_rollout_waits_within_its_reset_timeout(cloud: Place, pace_folder: Path) -> None:
    """Creates are slow and one is refused for a while: every episode is played all the same."""
    gridsim = Path(__file__).resolve().parents[2] / "examples" / "gridsim"
    refuse(cloud, seconds=2)
    pace = [f"{cloud.name}.{RATE[cloud.name]}=2"]
    if "pace_dir" in cloud.options:
        pace.append(f"{cloud.name}.pace_dir={pace_folder / 'pace'}")
    given = [word for pair in pace for word in ("--sandbox-option", pair)]
    play = ["rehearse", str(gridsim), "--policy", "greedy", "--groups", "2", "--samples", "3", "--reset-timeout", "90"]
    done = cloud.agentenv(*play, *cloud.arguments, *given)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "6 episodes, 0 failures" in done.stdout
    assert cloud.running() == []
