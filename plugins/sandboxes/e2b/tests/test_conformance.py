"""Both providers keep the contract of sandbox providers, on stand-ins that the real SDK talks to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from agent_env.sandboxes.e2b.provider import AenvProvider, E2BProvider, E2BProviderBase
from agent_env.sandboxes.e2b.testing.faults import Fault
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import SandboxProvider
    from agent_env.sandboxes.e2b.testing.server import StandIn
    from agent_env.testing.sandbox_suite import Fault as FaultName

_NOBODY = "http://127.0.0.1:9"


def faulty(
    standin: StandIn, make: Callable[[dict[str, str]], E2BProviderBase], url: str, options: dict[str, str]
) -> Callable[[FaultName], SandboxProvider | None]:
    def provoke(fault: FaultName) -> SandboxProvider | None:
        standin.faults.waiting.clear()
        if fault == "auth":
            return make({**options, "api_key": "e2b_" + "f" * 40})
        if fault == "unavailable":
            return make({**options, url: _NOBODY})
        if fault == "rate_limit":
            standin.faults.add(Fault("create", status=429, message="slow down", retry_after=1, times=1))
        elif fault == "quota":
            message = "you have reached the maximum number of concurrent sandboxes (20)"
            standin.faults.add(Fault("create", status=429, message=message, times=4))
        else:
            standin.faults.add(Fault("create", "lost"))
        return make(options)

    return provoke


class TestE2B(SandboxSuite):
    @pytest.fixture
    def sandbox(self, standin: StandIn, options: Callable[..., dict[str, str]]) -> SandboxCase:
        given = options()
        provoke = faulty(standin, lambda changed: E2BProvider(**changed), "api_url", given)
        return SandboxCase("e2b", given, faulty=provoke)


@pytest.mark.skipif(
    os.environ.get("AGENTENV_TEST_ALL") != "true",
    reason="the code is that of e2b, and its own ways have tests of their own: AGENTENV_TEST_ALL=true checks all",
)
class TestAenv(SandboxSuite):
    @pytest.fixture
    def sandbox(self, hosted: StandIn) -> SandboxCase:
        given = {"api_key": hosted.key, "url": hosted.url}
        provoke = faulty(hosted, lambda changed: AenvProvider(**changed), "url", given)
        return SandboxCase("aenv", given, faulty=provoke)
