"""The contract, held against the stand-in by the real SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.sandboxes.modal.provider import ModalProvider
from agent_env.testing.sandbox_suite import Fault, SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.standin.server import StandIn


class TestModal(SandboxSuite):
    @pytest.fixture
    def sandbox(self, modal: StandIn) -> SandboxCase:
        def faulty(fault: Fault) -> ModalProvider:
            if fault == "lost_reply":
                modal.faults.lost_replies = 1
                return ModalProvider()
            return ModalProvider(app=f"fault-{fault.replace('_', '-')}")

        return SandboxCase("modal", {"create_rate": "100"}, faulty=faulty, cancels=6)
