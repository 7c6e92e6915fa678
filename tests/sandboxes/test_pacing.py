"""Creates of all clouds go through one bucket for each account, which the processes of a machine share."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode.providers import Providers
from agent_env.errors import RateLimited
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
import asyncio, json, logging, sys
from pathlib import Path
from agent_env.episode.providers import Providers
from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.registry import default_registry

async def main(name, options, folder, count):
    async with Providers(default_registry(), name, {name: options}).make(None) as provider:
        spec = SandboxSpec(BuildContext(Path(folder)), serves=False)
        await provider.prepare(spec.image)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for box in await asyncio.gather(*(provider.create(spec) for _ in range(count))):
            await box.close()

logging.basicConfig(stream=sys.stdout, format="%(message)s")
logging.getLogger("agent_env.sandboxes").setLevel(logging.INFO)
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


def start(cloud: Place, folder: Path, env: BuildContext, count: int, **changes: str) -> subprocess.Popen[str]:
    """A process that makes so many sandboxes at once, when it is told to."""
    request = json.dumps([cloud.name, options(cloud, folder, **changes), str(env.path), count])
    # The name is among the words of the command, by which the stand-in's patch of its SDK knows it.
    return subprocess.Popen(
        [sys.executable, "-c", CREATES, request],
        env={**cloud.environment, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def says(process: subprocess.Popen[str], what: str) -> None:
    """Wait until it has said that."""
    assert process.stdout is not None
    for line in process.stdout:
        if what in line:
            return
    raise AssertionError(process.communicate()[1])


def go(process: subprocess.Popen[str]) -> None:
    """Let it make them."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def ends_well(process: subprocess.Popen[str]) -> None:
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0, output + errors


def asked_at(cloud: Place) -> list[float]:
    """When creates came to the service, by the monotonic clock, which is the same in all processes."""
    service = cloud.service
    part = {"e2b": "control", "aenv": "control", "modal": "state"}.get(cloud.name)
    times: list[float] = (service if part is None else getattr(service, part)).asked_at
    return times


def test_what_one_process_is_told_is_waited_by_all_who_then_take_turns(
    cloud: Place, pace_folder: Path, env: BuildContext
) -> None:
    """Also by those that had their turn already, and by the one that was told, which the SDK must not make wait."""
    told, other = (start(cloud, pace_folder, env, count, **{RATE[cloud.name]: "4"}) for count in (1, 4))
    for process in (told, other):
        says(process, "ready")
    refuse(cloud, 3)
    before = len(asked_at(cloud))
    go(told)
    says(told, "tried again in")
    go(other)
    for process in (told, other):
        ends_well(process)
    refused_at, *after = asked_at(cloud)[before:]
    assert len(after) == 5
    early = [at - refused_at for number, at in enumerate(after) if at < refused_at + 3 + number / 4]
    assert not early, "seconds after the refusal"
    assert cloud.running() == []


def test_what_a_service_asks_for_longer_than_a_caller_waits_is_told_at_once(
    cloud: Place, pace_folder: Path, env: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in cloud.variables.items():
        monkeypatch.setenv(variable, value)

    async def work() -> None:
        async with provider(cloud, options(cloud, pace_folder)) as one:
            await one.prepare(env)
            refuse(cloud, 500)
            before = len(asked_at(cloud))
            for _ in range(2):  # by the service, then by what it has said
                with pytest.raises(RateLimited) as raised:
                    await one.create(SandboxSpec(env, serves=False), timeout=300)
                assert raised.value.retryable
                assert 400 < (raised.value.retry_after or 0) <= 500
            assert len(asked_at(cloud)) == before + 1

    asyncio.run(work())
    assert cloud.running() == []


def provider(cloud: Place, given: dict[str, str]) -> SandboxProvider:
    return Providers(default_registry(), cloud.name, {cloud.name: given}).make(None)


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
