"""The model that keeps tokens: with any replies, the mask and the bounds hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.rollout.model import ContextFull, ModelFailed
from agent_env.training.verl.engine import Tokens
from agent_env.training.verl.turns import TokenModel
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.training.verl.engine import Sampled

END = 0
PROMPT = [7, 7, 7]
USER: list[dict[str, Any]] = [{"role": "user", "content": "?"}]


@dataclass
class Reply:
    token_ids: list[int]
    log_probs: list[float] | None = None
    stop_reason: str | None = "completed"


class Engine:
    """Replies one after the other, cut at the limit; a context of some tokens after each."""

    def __init__(self, replies: Sequence[Reply], contexts: Sequence[int] = ()) -> None:
        self.replies = list(replies)
        self.contexts = list(contexts)
        self.merged: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []

    async def start(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Tokens:
        return Tokens(list(PROMPT))

    async def sample(self, ids: list[int], limit: int) -> Sampled:
        reply = self.replies.pop(0)
        cut = None if reply.log_probs is None else reply.log_probs[:limit]
        return Reply(reply.token_ids[:limit], cut, reply.stop_reason)

    async def add_reply(self, tokens: Tokens, reply: Sampled) -> Tokens:
        logprobs = None if reply.log_probs is None else [*(tokens.logprobs or []), *reply.log_probs]
        return Tokens([*tokens.ids, *reply.token_ids], [*tokens.mask, *([1] * len(reply.token_ids))], logprobs)

    async def add_context(
        self, tokens: Tokens, before: list[dict[str, Any]], after: list[dict[str, Any]], tools: list[dict[str, Any]]
    ) -> Tokens:
        self.merged.append((before, after))
        count = self.contexts.pop(0)
        logprobs = None if tokens.logprobs is None else [*tokens.logprobs, *([0.0] * count)]
        return Tokens([*tokens.ids, *([5] * count)], [*tokens.mask, *([0] * count)], logprobs)

    async def read(self, reply: Sampled) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": {}}}],
        }

    def ends_itself(self, reply: Sampled) -> bool:
        return reply.token_ids[-1] == END


async def _converse(model: TokenModel, turns: int) -> list[str]:
    """The finish reasons of ``turns`` replies, each answered by a tool."""
    messages = list(USER)
    await model.begin(messages, [])
    reasons: list[str] = []
    for _ in range(turns):
        try:
            reply = await model(messages, [])
        except ContextFull:
            return [*reasons, "full"]
        reasons.append(reply.finish_reason)
        messages = [*messages, reply.message, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    return reasons


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 4), max_size=8), st.integers(0, 8)), min_size=1, max_size=5),
    st.integers(1, 30),
    st.none() | st.integers(4, 40),
    st.booleans(),
)
def test_mask_and_bounds(
    turns: list[tuple[list[int], int]], room: int, longest: int | None, with_logprobs: bool
) -> None:
    replies = [[*ids, END] for ids, _ in turns]
    engine = Engine(
        [Reply(ids, [-1.0] * len(ids) if with_logprobs else None) for ids in replies], [count for _, count in turns]
    )
    model = TokenModel(engine, room, max_model_len=longest)
    reasons = asyncio.run(_converse(model, len(turns)))
    tokens = model.tokens
    assert tokens.prompt_ids == PROMPT
    assert len(tokens.mask) == len(tokens.response_ids) <= room
    assert longest is None or len(tokens.ids) <= longest
    written = [token for reply in model.replies for token in reply.token_ids]
    trained = [token for token, kept in zip(tokens.response_ids, tokens.mask, strict=True) if kept]
    assert trained == written
    assert not trained or tokens.mask[-1] == 1, "nothing stands after the last reply"
    if with_logprobs and tokens.mask:
        assert tokens.logprobs == [-1.0 if kept else 0.0 for kept in tokens.mask]
    for reply, reason in zip(model.replies, reasons, strict=False):
        assert (reason == "length") == (reply.token_ids[-1] != END)


def test_templates_get_calls_and_answers_that_belong_together() -> None:
    engine = Engine([Reply([1, END]), Reply([1, END])], [2])
    asyncio.run(_converse(TokenModel(engine, 100), 2))
    ((before, after),) = engine.merged
    assert after[: len(before)] == before, "verl's merges demand that messages are only appended"
    assert before[-1]["tool_calls"][0]["id"] == after[-1]["tool_call_id"] == "a"
    assert after[-1]["name"] == "look"


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([Reply([])], "without a token"),
        ([Reply([1, END], [-1.0, -1.0]), Reply([1, END])], "some of the replies"),
    ],
)
def test_an_engine_that_answers_nonsense_is_a_failure(replies: list[Reply], words: str) -> None:
    model = TokenModel(Engine(replies, [1, 1]), 100)
    with pytest.raises(ModelFailed, match=words):
        asyncio.run(_converse(model, 2))


def test_an_aborted_reply_is_no_reply() -> None:
    model = TokenModel(Engine([Reply([], None, "aborted")]), 100)
    assert asyncio.run(_converse(model, 1)) == ["abort"]
    assert model.tokens.mask == []
