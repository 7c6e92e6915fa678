"""The conformance suite of a sandbox provider.

::

    class TestAcme(SandboxSuite):
        @pytest.fixture
        def sandbox(self) -> SandboxCase:
            return SandboxCase("acme", {"region": "local"})

What a provider cannot do by its `agent_env.plugin.sandbox.Capabilities` is skipped with that reason.
"""

from __future__ import annotations

import pytest
from agent_env.testing.sandbox_case import Fault, SandboxCase
from agent_env.testing.sandbox_checks import SandboxChecks
from agent_env.testing.suite import Suite

__all__ = ["Fault", "SandboxCase", "SandboxSuite"]


class SandboxSuite(SandboxChecks, Suite):
    """Subclass it and give the fixture `sandbox`."""

    @pytest.fixture
    def sandbox(self) -> SandboxCase:
        """The case: the provider's name and options."""
        raise NotImplementedError("give the fixture `sandbox`: return SandboxCase(name, options)")

    @pytest.fixture(autouse=True)
    def _take_case(self, sandbox: SandboxCase) -> None:
        self.case = sandbox
