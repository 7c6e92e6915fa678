"""The suite that every trainer adapter passes."""

from __future__ import annotations

import pytest
from agent_env.testing.trainer_suite import TrainerCase, TrainerSuite


class TestSkyrl(TrainerSuite):
    @pytest.fixture
    def trainer(self) -> TrainerCase:
        return TrainerCase("skyrl", heavy=("skyrl_gym", "torch", "ray", "transformers", "datasets", "numpy"))
