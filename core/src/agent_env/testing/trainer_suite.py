"""The conformance suite of a trainer adapter.

::

    class TestAcme(TrainerSuite):
        @pytest.fixture
        def trainer(self) -> TrainerCase:
            return TrainerCase("acme")
"""

from __future__ import annotations

import pytest
from agent_env.testing.rehearsal_checks import TrainerChecks
from agent_env.testing.suite import Suite
from agent_env.testing.trainer_checks import TrainerCase

__all__ = ["TrainerCase", "TrainerSuite"]


class TrainerSuite(TrainerChecks, Suite):
    """Subclass it and give the fixture `trainer`."""

    @pytest.fixture
    def trainer(self) -> TrainerCase:
        """The case: the adapter's name."""
        raise NotImplementedError("give the fixture `trainer`: return TrainerCase(name)")

    @pytest.fixture(autouse=True)
    def _take_case(self, trainer: TrainerCase) -> None:
        self.case = trainer
