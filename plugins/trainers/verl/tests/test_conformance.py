"""The suite that every trainer adapter passes."""

from __future__ import annotations

import pytest
from agent_env.testing.trainer_suite import TrainerCase, TrainerSuite


class TestVerl(TrainerSuite):
    @pytest.fixture
    def trainer(self) -> TrainerCase:
        return TrainerCase("verl", heavy=("verl", "transformers", "datasets", "pyarrow", "omegaconf", "hydra"))
