"""The real service, when there are credentials for it: one sandbox, ended at once. It costs a few cents."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from agent_env.sandboxes.modal.provider import ModalProvider
from agent_env.testing.sandbox_smoke import smoke

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.modal.standin.server import StandIn

LIVE = bool(os.environ.get("MODAL_TOKEN_ID") and os.environ.get("MODAL_TOKEN_SECRET"))


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LIVE, reason="MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are not set: no live account to test with")
@pytest.mark.parametrize("access", ["token", "tunnel"])
def test_live_modal(access: str, tmp_path: Path) -> None:
    asyncio.run(smoke(ModalProvider(access=access), tmp_path))


def test_the_same_on_the_stand_in(modal: StandIn, tmp_path: Path) -> None:
    asyncio.run(smoke(ModalProvider(), tmp_path))
    assert modal.state.boxes.running() == []
