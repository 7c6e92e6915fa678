"""``agentenv sandbox ls`` and ``agentenv sandbox reap``, with real sandboxes of the process provider."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent_env.cli.sandbox_ls import duration
from agent_env.episode.providers import Providers
from agent_env.plugin.sandbox import HostImage, SandboxSpec
from agent_env.registry import default_registry

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def state() -> Iterator[Path]:
    """A short path: a unix socket's path holds 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="ae-"))
    yield path
    shutil.rmtree(path)


def agentenv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from _agentenv_start import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def options(state: Path) -> list[str]:
    return ["--sandbox", "process", "--sandbox-option", f"state_dir={state}"]


def test_a_live_sandbox_is_listed_and_never_reaped(state: Path) -> None:
    async def play() -> None:
        provider = Providers(default_registry(), "process", {"process": {"state_dir": str(state)}}).make(None)
        async with provider:
            spec = SandboxSpec(image=HostImage(), serves=False, label="held", labels={"color": "blue"}, ttl_s=600.0)
            box = await provider.create(spec)
            table = await asyncio.to_thread(agentenv, "sandbox", "ls", *options(state))
            assert table.returncode == 0, table.stderr
            line = next(line for line in table.stdout.splitlines() if box.id in line)
            assert {"process", "running", "alive", "color=blue", "label=held"} <= set(line.split())
            listed = await asyncio.to_thread(agentenv, "sandbox", "ls", "--json", *options(state))
            (entry,) = json.loads(listed.stdout)
            assert (entry["provider"], entry["id"], entry["owner"]) == ("process", box.id, "alive")
            assert entry["labels"]["color"] == "blue"
            assert entry["expires_at"] - entry["created_at"] == pytest.approx(600.0)
            reaped = await asyncio.to_thread(agentenv, "sandbox", "reap", "--older-than", "0s", *options(state))
            assert reaped.stdout == "ended 0 sandboxes\n"
            assert await box.status() == "running"

    asyncio.run(play())
    assert agentenv("sandbox", "ls", *options(state)).stdout == "no sandboxes\n"


def test_what_a_dead_owner_left_is_reaped(state: Path) -> None:
    group = state / "0123abcd"
    (group / "00000001").mkdir(parents=True)
    owner = {"host": "h", "boot": "b", "pidns": "n", "pid": 1, "start": 1}
    (group / "owner.json").write_text(json.dumps(owner))
    record = {"id": "0123abcd-00000001", "labels": {}, "created_at": 1.0, "expires_at": 2.0, "owner": owner}
    (group / "00000001" / "meta.json").write_text(json.dumps({**record, "pid": 0, "start": 0}))
    state.chmod(0o700)
    (entry,) = json.loads(agentenv("sandbox", "ls", "--json", *options(state)).stdout)
    assert (entry["id"], entry["owner"]) == ("0123abcd-00000001", "elsewhere")
    assert agentenv("sandbox", "reap", *options(state)).stdout == "process  0123abcd-00000001\nended 1 sandbox\n"
    assert agentenv("sandbox", "ls", *options(state)).stdout == "no sandboxes\n"


def test_a_provider_that_cannot_answer_is_named() -> None:
    done = agentenv("sandbox", "ls", "--sandbox", "docker", "--sandbox-option", "host=unix:///there/is/none")
    assert done.returncode == 1
    assert done.stdout == "", "it says what nobody knows"
    assert "docker" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_provider_is_refused() -> None:
    done = agentenv("sandbox", "reap", "--sandbox", "proces")
    assert done.returncode != 0
    assert "process" in done.stderr, "the nearest name is not said"


def test_a_duration_that_is_none_is_refused() -> None:
    done = agentenv("sandbox", "reap", "--older-than", "soon")
    assert done.returncode == 2
    assert "90s, 30m, 2h or 1d" in done.stderr


def test_durations_as_people_read_them() -> None:
    seconds = [-1.0, 0.0, 90.0, 600.0, 3 * 3600.0, 3 * 86400.0]
    assert [duration(value) for value in seconds] == ["over", "0s", "90s", "10m", "3h", "3d"]
