"""The model of a rollout that keeps the conversation in tokens beside its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.rollout.model import ContextFull, ModelFailed, Reply
from agent_env.rollout.text import plain_text
from agent_env.training.verl.engine import Tokens

if TYPE_CHECKING:
    from agent_env.plugin.parser import ParsedReply, ToolCallParser
    from agent_env.training.verl.engine import Engine, Sampled

_CUT = frozenset({"length", "max_tokens"})
_ABORTED = frozenset({"abort", "aborted", "cancelled"})


class TokenModel:
    """Answers a rollout's conversation. Call `begin` with the same prompt and tools first.

    Args:
        engine: the model and its tokens.
        room: tokens that the response may have, context included.
        max_model_len: tokens of prompt and response that the engine takes, `None` without a bound.
        parser: reads the calls of a reply's text; `None` = the engine does.
    """

    def __init__(
        self, engine: Engine, room: int, *, max_model_len: int | None = None, parser: ToolCallParser | None = None
    ) -> None:
        self._engine = engine
        self._most = room
        self._max_model_len = max_model_len
        self._parser = parser
        self._seen: list[dict[str, Any]] = []
        self._replied: dict[str, Any] | None = None
        self.tokens = Tokens([])
        self.replies: list[Sampled] = []
        self.contexts = 0
        """Times that context was added."""

    async def begin(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        """Make the prompt's tokens, before anything is asked of the env.

        Raises:
            UsageError: the prompt does not fit.
        """
        self.tokens = await self._engine.start(messages, tools)
        self._seen = list(messages)

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        tokens = await self._take_context(messages, tools)
        limit = self._limit(tokens)
        if limit <= 0:
            raise ContextFull(f"the response has no room after {len(tokens.mask)} tokens")
        self.tokens = tokens
        sampled = await self._engine.sample(tokens.ids, limit)
        aborted = sampled.stop_reason in _ABORTED
        if not sampled.token_ids and not aborted:
            raise ModelFailed("the engine returned a reply without a token")
        if not aborted and tokens.mask and bool(sampled.log_probs) != (tokens.logprobs is not None):
            raise ModelFailed("the engine gave log-probabilities for some of the replies only")
        if aborted:
            return Reply({"role": "assistant", "content": ""}, "abort")
        self.tokens = await self._engine.add_reply(tokens, sampled)
        self.replies.append(sampled)
        message = await self._engine.read(sampled)
        self._replied = message
        # Engines do not say whether they stopped or were cut: a reply that fills its room without an end was cut.
        # One that is longer than it was let (not every engine of verl's listens) is cut when the sample is made.
        excess = len(sampled.token_ids) - limit
        full = excess > 0 or (excess == 0 and not self._engine.ends_itself(sampled))
        return Reply(
            message,
            "length" if full or sampled.stop_reason in _CUT else "stop",
            total_tokens=len(self.tokens.ids),
            completion_tokens=len(sampled.token_ids),
        )

    def _limit(self, tokens: Tokens) -> int:
        limit = self._most - len(tokens.mask)
        return limit if self._max_model_len is None else min(limit, self._max_model_len - len(tokens.ids))

    async def _take_context(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Tokens:
        """The tokens with the answers to the last reply."""
        if self._replied is None:
            return self.tokens
        answers = messages[len(self._seen) + 1 :]
        before = [*self._seen, *self._template_messages(self._replied, answers, tools)[:1]]
        after = [*self._seen, *self._template_messages(self._replied, answers, tools)]
        tokens = await self._engine.add_context(self.tokens, before, after, tools)
        if self._limit(tokens) <= 0:
            # As verl does: what leaves no room for a reply is not added.
            raise ContextFull(f"the answers to the last calls leave no room in a response of {self._most} tokens")
        self._seen, self._replied = after, None
        self.contexts += 1
        return tokens

    def _template_messages(
        self, reply: dict[str, Any], answers: list[dict[str, Any]], tools: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The reply and its answers as chat templates want them: calls with ids, answers with names."""
        content, calls = self._calls(reply, tools)
        names = [name for name, _ in calls]
        made = [
            {
                "id": answer.get("tool_call_id") or f"call_{place}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for place, (answer, (name, arguments)) in enumerate(zip(answers, calls, strict=False))
        ]
        first: dict[str, Any] = {"role": "assistant", "content": content}
        if made:
            first["tool_calls"] = made
        named = [
            {**answer, "name": names[place]} if place < len(names) else answer for place, answer in enumerate(answers)
        ]
        return [first, *named]

    def _calls(self, reply: dict[str, Any], tools: list[dict[str, Any]]) -> tuple[str, list[tuple[str, Any]]]:
        text = plain_text(reply.get("content"))
        calls = reply.get("tool_calls")
        if isinstance(calls, list) and calls:
            functions = [
                cast("dict[str, Any]", call.get("function") or {}) for call in cast("list[dict[str, Any]]", calls)
            ]
            return text, [(str(one.get("name") or ""), one.get("arguments") or {}) for one in functions]
        if self._parser is None:
            return text, []
        parsed: ParsedReply = self._parser.parse(text, tools)
        return plain_text(parsed.content), [(call.name or "", call.arguments or {}) for call in parsed.calls]
