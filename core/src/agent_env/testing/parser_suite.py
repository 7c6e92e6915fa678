"""The conformance suite of a tool-call parser.

::

    class TestAcme(ParserSuite):
        @pytest.fixture
        def parser(self) -> ParserCase:
            return ParserCase("acme", texts=["<acme>{...}</acme>"], tools=[...])
"""

from __future__ import annotations

import pytest
from agent_env.testing.parser_checks import ParserCase, ParserChecks
from agent_env.testing.suite import Suite

__all__ = ["ParserCase", "ParserSuite"]


class ParserSuite(ParserChecks, Suite):
    """Subclass it and give the fixture `parser`."""

    @pytest.fixture
    def parser(self) -> ParserCase:
        """The case: a parser, and replies in its format."""
        raise NotImplementedError("give the fixture `parser`: return ParserCase(name, texts=[...])")

    @pytest.fixture(autouse=True)
    def _take_case(self, parser: ParserCase) -> None:
        self.case = parser
