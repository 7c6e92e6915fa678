"""The stand-in and providers on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import UsageError
from agent_env.plugin.sandbox import BuildContext
from agent_env.sandboxes.e2b.testing.server import StandIn
from agent_env.testing.sandbox_env import write_env

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _started(*, idempotent: bool) -> StandIn:
    try:
        return StandIn(idempotent=idempotent)
    except UsageError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "E2B_DEBUG", "AENV_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def cloud() -> Iterator[StandIn]:
    """A stand-in for the cloud, shared: templates are built once."""
    with _started(idempotent=True) as stand_in:
        yield stand_in


@pytest.fixture(scope="session")
def hosted() -> Iterator[StandIn]:
    """A stand-in for a self-hosted server: it takes no uploads and knows no idempotency keys."""
    with _started(idempotent=False) as stand_in:
        stand_in.faults.no_uploads = True
        yield stand_in


@pytest.fixture
def standin(cloud: StandIn) -> Iterator[StandIn]:
    """The cloud without faults; nothing may be left in it."""
    yield cloud
    cloud.faults.waiting.clear()
    cloud.faults.no_traffic_token = False
    left = list(cloud.boxes)
    for box_id in left:
        cloud.end(box_id)
    assert left == []


@pytest.fixture
def options(standin: StandIn) -> Callable[..., dict[str, str]]:
    """Options of a provider on the stand-in, as text."""

    def make(**changes: str) -> dict[str, str]:
        given = {
            "api_key": standin.key,
            "api_url": standin.url,
            "sandbox_url": standin.url,
            "creates_per_s": "100",
            "burst": "50",
        }
        return {**given, **changes}

    return make


@pytest.fixture
def env(tmp_path: Path) -> BuildContext:
    """An env that answers HTTP."""
    return BuildContext(write_env(tmp_path / "answers"))
