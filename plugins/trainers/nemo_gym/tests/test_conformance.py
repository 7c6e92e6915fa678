"""The suite that every trainer adapter passes."""

from __future__ import annotations

import pytest
from agent_env.testing.trainer_suite import TrainerCase, TrainerSuite


class TestNemoGym(TrainerSuite):
    @pytest.fixture
    def trainer(self) -> TrainerCase:
        return TrainerCase("nemo-gym", heavy=("nemo_gym", "openai", "datasets", "wandb"))
