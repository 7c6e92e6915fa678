"""Every parser in the conformance suite that third parties use."""

from __future__ import annotations

from typing import Any

import pytest
from agent_env.testing.parser_suite import ParserCase, ParserSuite


class TestParsers(ParserSuite):
    @pytest.fixture
    def parser(self, family: str, all_tools: list[dict[str, Any]]) -> ParserCase:
        return ParserCase(family, tools=all_tools)
