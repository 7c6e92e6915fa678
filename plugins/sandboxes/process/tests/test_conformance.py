"""The process provider keeps the contract of sandbox providers, with and without bubblewrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation


@pytest.mark.cgroups
class TestProcess(SandboxSuite):
    @pytest.fixture
    def sandbox(self, isolation: Isolation, state_dir: Path) -> SandboxCase:
        return SandboxCase("process", {"isolation": isolation, "state_dir": str(state_dir)})
