"""The conformance suite, on the stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.sandbox import Resources
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxProvider
    from agent_env.sandboxes.daytona.testing.standin import StandIn
    from agent_env.testing.sandbox_suite import Fault


class TestDaytona(SandboxSuite):
    """All checks."""

    @pytest.fixture
    def sandbox(self, standin: StandIn, options: dict[str, Any]) -> SandboxCase:
        def faulty(fault: Fault) -> SandboxProvider:
            changed = dict(options)
            match fault:
                case "auth":
                    changed["api_key_var"] = "DAYTONA_WRONG_KEY"
                case "rate_limit":
                    standin.faults.rate_limit = 2
                case "quota":
                    standin.faults.quota = True
                case "lost_reply":
                    standin.faults.lost_reply = 1
                case "unavailable":
                    changed |= {"api_url": standin.unavailable_url, "request_timeout_s": 2}
            return DaytonaProvider(**changed)

        return SandboxCase(
            "daytona",
            {name: str(value) for name, value in options.items()},
            faulty=faulty,
            cancels=4,
            resources=Resources(cpu=2.0, memory_mb=2048, disk_mb=3072, pids=100),
        )
