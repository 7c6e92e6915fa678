"""The parser keeps the contract; add tests of what models really write beside it."""

from __future__ import annotations

import pytest
from agent_env.testing.parser_suite import ParserCase, ParserSuite

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Test__CLASS__(ParserSuite):
    @pytest.fixture
    def parser(self) -> ParserCase:
        texts = [
            'I look.<call>{"name": "look", "arguments": {}}</call>',
            '<call>{"name": "look", "arguments": {}</call>',
            '<call>{"name": "loo',
            '<call>["look"]</call>',
        ]
        return ParserCase("__NAME__", texts=texts, tools=[TOOL])
