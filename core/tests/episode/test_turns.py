"""Turns that several steps ask for at once."""

from __future__ import annotations

import asyncio

import pytest
from agent_env.episode.turns import Turns
from agent_env.errors import UsageError


async def nothing() -> None:
    """No tools to refresh."""


def ask(turns: Turns, name: str) -> asyncio.Task[str]:
    return asyncio.create_task(turns.ask(name, f"{name}?", system_prompt=None, prompt_id=name, ready=nothing))


def test_one_turn_is_open_at_a_time_in_the_order_of_asking() -> None:
    async def play() -> None:
        turns = Turns()
        coming = turns.expect()
        asked = [ask(turns, name) for name in ("b", "a", "c")]
        for number, name in enumerate(("b", "a", "c"), 1):
            turn = await coming
            assert turn is not None
            assert (turn.number, turn.prompt_id) == (number, name)
            coming = turns.expect()
            turns.answer(name.upper())
        assert await asyncio.gather(*asked) == ["B", "A", "C"]
        assert [reply.text for reply in turns.replies] == ["B", "A", "C"]
        turns.finish()
        assert await coming is None

    asyncio.run(play())


def test_a_prompt_id_is_used_once_and_an_answer_needs_a_turn() -> None:
    async def play() -> None:
        turns = Turns()
        coming = turns.expect()
        with pytest.raises(UsageError, match="no turn is open"):
            turns.answer("early")
        first = ask(turns, "a")
        await coming
        turns.answer("x")
        with pytest.raises(UsageError, match="no turn is open"):
            turns.answer("twice")
        await first
        with pytest.raises(UsageError, match="two prompts have the id 'a'"):
            await ask(turns, "a")

    asyncio.run(play())
