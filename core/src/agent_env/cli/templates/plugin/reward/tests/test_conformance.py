"""The combiner keeps the contract; add tests of what it means beside it."""

from __future__ import annotations

import pytest
from agent_env.testing.reward_suite import RewardCase, RewardSuite


class Test__CLASS__(RewardSuite):
    @pytest.fixture
    def reward(self) -> RewardCase:
        return RewardCase("__NAME__:grade", steps=("grade", "format"), wrong=("__NAME__", "__NAME__:a=b"))


def test_ten_calls_halve_it() -> None:
    from agent_env.plugin.reward import EpisodeFacts

    combiner = RewardCase("__NAME__:grade", steps=("grade",)).build()
    assert combiner.combine({"grade": 0.8}, EpisodeFacts("task", tool_calls=10)) == pytest.approx(0.4)
