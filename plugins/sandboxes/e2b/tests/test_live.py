"""The real services, when there is a key for them: one sandbox each, ended at once."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from agent_env.sandboxes.e2b.provider import AenvProvider, E2BProvider
from agent_env.testing.sandbox_smoke import smoke

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.sandboxes.e2b.testing.server import StandIn

LIVE_KEY = os.environ.get("E2B_API_KEY")
LIVE_URL = os.environ.get("AENV_URL")


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LIVE_KEY, reason="E2B_API_KEY is not set: no live account to test with")
def test_live_e2b(tmp_path: Path) -> None:
    asyncio.run(smoke(E2BProvider(), tmp_path))


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LIVE_URL, reason="AENV_URL is not set: no live server to test with")
def test_live_aenv(tmp_path: Path) -> None:
    asyncio.run(smoke(AenvProvider(url=LIVE_URL), tmp_path))


def test_the_same_on_the_stand_in(standin: StandIn, options: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    asyncio.run(smoke(E2BProvider(**options()), tmp_path))
    assert not standin.boxes
