"""Rows with a parser: calls are read from the text by an AgentEnv parser plugin, the echo stays verbatim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_env.registry import default_registry
from agent_env.testing.standin import StandInModel, say
from agent_env.training.miles import agent

TEXTS = [
    '<think>Where am I?</think>\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "open", "arguments": {"door": \n</tool_call>',
    '<tool_call>\n{"name": "peek", "arguments": {}}\n</tool_call>',
    "It is xyzzy.",
]


def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    return say(TEXTS[sum(message["role"] == "assistant" for message in messages)])


async def run(model: StandInModel, row: dict[str, Any]) -> dict[str, Any]:
    return await agent.run(model.open_session(), row["messages"], {}, row["metadata"])


@pytest.mark.skipif("qwen25" not in default_registry().names("parser"), reason="agentenv-parser-qwen is not installed")
@pytest.mark.parametrize("session", ["v1", "v2"])
def test_calls_are_read_by_a_plugin(serve: Any, rows: Any, session: str) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(policy, session) as model:
            row = (await rows(served.url, parser="qwen25"))["eval"][0]
            assert row["metadata"]["agentenv"]["parser"] == "qwen25"
            result = await run(model, row)
            assert (result["reward"], result["agentenv_tool_calls"]) == (1.0, 1)
            assert result["agentenv_invalid_calls"] == 1
            assert result["agent_metrics"]["unknown_calls"] == 1
            (live,) = model.sessions.values()
            last = live.requests[-1]["messages"]
            assert [message["content"] for message in last if message["role"] == "assistant"] == TEXTS[:3]
            (sample,) = model.samples(f"{model.url}/sessions/{live.id}")
            assert sample.trained_tokens == live.generated

    asyncio.run(main())


def test_a_parser_that_is_not_installed_is_named(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(policy) as model:
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["agentenv"]["parser"] = "no-such-parser"
            result = await run(model, row)
            assert "no-such-parser" in result["agentenv_failure"]
            assert all(session.chats == 0 for session in model.sessions.values())

    asyncio.run(main())
