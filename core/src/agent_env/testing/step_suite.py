"""The conformance suite of a step type.

::

    class TestAsk(StepSuite):
        @pytest.fixture
        def step(self) -> StepCase:
            return StepCase("ask", {"question": "2 + 2?", "answer": "4"}, replies=("4",), score=1.0)
"""

from __future__ import annotations

import pytest
from agent_env.testing.step_checks import StepCase, StepChecks
from agent_env.testing.suite import Suite

__all__ = ["StepCase", "StepSuite"]


class StepSuite(StepChecks, Suite):
    """Subclass it and give the fixture `step`."""

    @pytest.fixture
    def step(self) -> StepCase:
        """The case: the step type's name and fields that make sense."""
        raise NotImplementedError("give the fixture `step`: return StepCase(type, fields)")

    @pytest.fixture(autouse=True)
    def _take_case(self, step: StepCase) -> None:
        self.case = step
