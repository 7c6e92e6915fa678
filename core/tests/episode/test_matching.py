"""Patterns over a model's text: the right answer, and no pattern stops the event loop."""

from __future__ import annotations

import asyncio
import re

import pytest
from agent_env.episode.matching import found
from agent_env.errors import CodeError
from hypothesis import given
from hypothesis import strategies as st


@given(
    st.sampled_from(["a", "^a", "a.c", "a+b*", r"\*", "[ab]{2,}", "(a|b)c$", r"\\+"]),
    st.text("abc*\\\n", max_size=8),
    st.sampled_from([re.DOTALL, re.IGNORECASE | re.DOTALL, re.MULTILINE]),
)
def test_it_is_what_re_finds(pattern: str, text: str, flags: re.RegexFlag) -> None:
    compiled = re.compile(pattern, flags)
    assert asyncio.run(found(compiled, text, 10)) is (compiled.search(text) is not None)


@pytest.mark.parametrize(("text", "expected"), [("ababc", True), ("ab\nc", False)])
def test_a_repeated_group_is_matched_in_a_child(text: str, expected: bool) -> None:
    assert asyncio.run(found(re.compile("^(ab)+c"), text, 30)) is expected


def test_a_pattern_that_explodes_is_given_up_while_the_loop_goes_on() -> None:
    async def play() -> int:
        ticks = 0
        matching = asyncio.create_task(found(re.compile("^(a+)+$"), "a" * 40 + "b", 0.3))
        while not matching.done():
            await asyncio.sleep(0.01)
            ticks += 1
        with pytest.raises(CodeError, match=r"was not done after 0\.3 s"):
            await matching
        return ticks

    assert asyncio.run(play()) > 3


def test_many_wildcards_over_a_long_text_do_not_stop_the_loop_either() -> None:
    async def play() -> None:
        with pytest.raises(CodeError, match="was not done"):
            await found(re.compile(".*a.*b.*c.*d", re.DOTALL), "abc" * 5000, 0.2)

    asyncio.run(play())


def test_a_cancelled_match_ends_its_child() -> None:
    async def play() -> None:
        matching = asyncio.create_task(found(re.compile("^(a+)+$"), "a" * 40 + "b", 60))
        await asyncio.sleep(0.1)
        matching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await matching

    asyncio.run(play())
