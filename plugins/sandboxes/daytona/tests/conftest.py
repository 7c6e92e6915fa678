"""The stand-in service, and providers that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.sandboxes.daytona.testing import plainhttp
from agent_env.sandboxes.daytona.testing.machine import usable
from agent_env.sandboxes.daytona.testing.standin import KEY, StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRONG_KEY_VAR = "DAYTONA_WRONG_KEY"


@pytest.fixture(scope="session")
def service() -> Iterator[StandIn]:
    """The stand-in, one for all tests."""
    why = usable()
    if why:
        pytest.skip(why)
    with StandIn() as standin:
        yield standin


@pytest.fixture
def standin(service: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    """The stand-in without faults, with its key in the environment."""
    plainhttp.allow()
    (tmp_path / "sitecustomize.py").write_text(plainhttp.allow_in_children())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DAYTONA_API_KEY", KEY)
    monkeypatch.setenv(WRONG_KEY_VAR, "dtn_of_somebody_else")
    monkeypatch.delenv("DAYTONA_API_URL", raising=False)
    service.reset()
    yield service
    service.reset()


@pytest.fixture
def options(standin: StandIn, tmp_path: Path) -> dict[str, Any]:
    """Options of a provider that uses the stand-in."""
    return {"api_url": standin.api_url, "creates_per_s": 1000, "pace_dir": str(tmp_path / "pace")}
