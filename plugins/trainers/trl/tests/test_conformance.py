"""The suite that every trainer adapter passes."""

from __future__ import annotations

import pytest
from agent_env.testing.trainer_suite import TrainerCase, TrainerSuite


class TestTrl(TrainerSuite):
    @pytest.fixture
    def trainer(self) -> TrainerCase:
        return TrainerCase("trl", heavy=("transformers", "datasets", "openenv", "trl", "numpy"))
