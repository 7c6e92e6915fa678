"""The real service, when there is a key for it: one sandbox, ended at once. It costs a few cents."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.testing.sandbox_smoke import smoke

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.daytona.testing.standin import StandIn

LIVE_KEY = os.environ.get("DAYTONA_API_KEY")


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LIVE_KEY, reason="DAYTONA_API_KEY is not set: no live account to test with")
def test_live_daytona(tmp_path: Path) -> None:
    asyncio.run(smoke(DaytonaProvider(), tmp_path))


def test_the_same_on_the_stand_in(standin: StandIn, options: dict[str, Any], tmp_path: Path) -> None:
    asyncio.run(smoke(DaytonaProvider(**options), tmp_path))
    assert standin.living == []
