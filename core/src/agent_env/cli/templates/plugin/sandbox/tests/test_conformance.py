"""The provider keeps the contract; add tests of the service's own faults beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from pathlib import Path


class Test__CLASS__(SandboxSuite):
    @pytest.fixture
    def sandbox(self, tmp_path_factory: pytest.TempPathFactory) -> SandboxCase:
        """``faulty=`` takes a function that makes a provider whose service refuses, stalls or loses an answer."""
        folder: Path = tmp_path_factory.mktemp("box")
        return SandboxCase("__NAME__", {"state_dir": str(folder)})
