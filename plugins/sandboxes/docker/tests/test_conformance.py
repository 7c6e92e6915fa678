"""The docker provider keeps the contract of sandbox providers, on a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.testing.sandbox_suite import Fault, SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import SandboxProvider

pytestmark = pytest.mark.docker


class TestDocker(SandboxSuite):
    @pytest.fixture
    def sandbox(self, faulty: Callable[[Fault], SandboxProvider]) -> SandboxCase:
        return SandboxCase("docker", faulty=faulty)
