"""The adapter keeps the contract; add tests of what the trainer reads beside it."""

from __future__ import annotations

import pytest
from agent_env.testing.trainer_suite import TrainerCase, TrainerSuite


class Test__CLASS__(TrainerSuite):
    @pytest.fixture
    def trainer(self) -> TrainerCase:
        return TrainerCase("__NAME__")
