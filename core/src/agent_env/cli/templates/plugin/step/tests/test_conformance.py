"""The step keeps the contract; add tests of what it means beside it."""

from __future__ import annotations

import pytest
from agent_env.testing.step_suite import StepCase, StepSuite

FIELDS = {"env_id": "room", "tool": "look", "contains": "xyzzy"}


class TestPassed(StepSuite):
    @pytest.fixture
    def step(self) -> StepCase:
        """The kit's own env ``room`` has a tool ``look`` whose answer holds ``xyzzy``."""
        return StepCase("__NAME__", FIELDS, wrong=({"tool": 1}, {"arguments": []}), score=1.0)


class TestFailed(StepSuite):
    @pytest.fixture
    def step(self) -> StepCase:
        return StepCase("__NAME__", {**FIELDS, "contains": "plugh"}, score=0.0)
