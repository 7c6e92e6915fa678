"""The docker provider keeps the contract of sandbox providers, on a real engine."""

from __future__ import annotations

import pytest
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

pytestmark = pytest.mark.docker


class TestDocker(SandboxSuite):
    @pytest.fixture
    def sandbox(self) -> SandboxCase:
        return SandboxCase("docker")
