"""The conformance suite of a reward combiner.

::

    class TestShortest(RewardSuite):
        @pytest.fixture
        def reward(self) -> RewardCase:
            return RewardCase("shortest:grade", steps=("grade",), wrong=("shortest",))
"""

from __future__ import annotations

import pytest
from agent_env.testing.reward_checks import RewardCase, RewardChecks
from agent_env.testing.suite import Suite

__all__ = ["RewardCase", "RewardSuite"]


class RewardSuite(RewardChecks, Suite):
    """Subclass it and give the fixture `reward`."""

    @pytest.fixture
    def reward(self) -> RewardCase:
        """The case: a spec, and scoring steps of a task that it fits."""
        raise NotImplementedError("give the fixture `reward`: return RewardCase(spec, steps=...)")

    @pytest.fixture(autouse=True)
    def _take_case(self, reward: RewardCase) -> None:
        self.case = reward
