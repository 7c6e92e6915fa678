"""The engine behind a real agent loop: verl's own token merges, its server and its tool parsers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agent_env.rollout.calls import new_call_id
from agent_env.training.verl.engine import Tokens
from agent_env.training.verl.schemas import parser_schema
from agent_env.training.verl.text import ends_turn, split_reasoning, without_end
from agent_env.training.verl.third_party import third_party

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.training.verl.engine import Sampled


class LoopEngine:
    """One episode's.

    Args:
        loop: the agent loop, an ``AgentLoopBase`` of verl.
        sampling: sampling parameters of every request.
        request_id: the same for the whole episode, so that the engine keeps its cache.
        priority: as verl passes it.
        verl_parser: name of verl's parser of calls; `None` = calls stay in the text.
    """

    def __init__(
        self, loop: Any, sampling: Mapping[str, Any], request_id: str, *, priority: int = 0, verl_parser: str | None
    ) -> None:
        self._loop = loop
        self._tokenizer: Any = loop.tokenizer
        self._sampling = dict(sampling)
        self._request: dict[str, Any] = {"request_id": request_id}
        if priority:
            self._request["priority"] = priority
        self._ends = tuple(str(end) for end in (getattr(self._tokenizer, "eos_token", None),) if end)
        self._schemas: list[Any] = []
        self._parser: Any = None
        if verl_parser is not None:
            parsers = third_party("verl.experimental.agent_loop.tool_parser").ToolParser
            self._parser = parsers.get_tool_parser(verl_parser, self._tokenizer)
            stops = list(self._parser.stop_token_ids)
            if stops:
                self._sampling["stop_token_ids"] = sorted({*(self._sampling.get("stop_token_ids") or ()), *stops})

    async def start(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        if self._parser is not None:
            self._schemas = [parser_schema(tool) for tool in tools]
        return Tokens(list(await self._loop.ct_build_initial_tokens(list(messages), tools=list(tools) or None)))

    async def sample(self, ids: list[int], limit: int) -> Sampled:
        """See `agent_env.training.verl.engine.Engine`."""
        sampling = dict(self._sampling)
        asked = [sampling.pop(key, None) for key in ("max_tokens", "max_new_tokens")]
        limits = [limit, *(int(one) for one in asked if one is not None)]
        sampling["max_tokens"] = min(limits)
        sampled: Sampled = await self._loop.server_manager.generate(
            prompt_ids=list(ids), sampling_params=sampling, **self._request
        )
        return sampled

    async def add_reply(self, tokens: Tokens, reply: Sampled) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        logprobs = reply.log_probs or None
        before = tokens.logprobs if tokens.logprobs is not None else ([] if logprobs else None)
        merged, mask, aligned = await self._loop.ct_merge_assistant_token(
            tokens.ids, list(reply.token_ids), tokens.mask, before, assistant_logprobs=logprobs
        )
        return Tokens(list(merged.token_ids), mask, aligned)

    async def add_context(
        self, tokens: Tokens, before: list[dict[str, Any]], after: list[dict[str, Any]], tools: list[dict[str, Any]]
    ) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        merged, mask, aligned = await self._loop.ct_merge_context_msg(
            before, after, tokens.ids, tokens.mask, tokens.logprobs, tools=tools or None
        )
        return Tokens(list(merged.token_ids), mask, aligned)

    async def read(self, reply: Sampled) -> dict[str, Any]:
        """See `agent_env.training.verl.engine.Engine`."""
        ids = list(reply.token_ids)
        if self._parser is None:
            text = await self._loop.loop.run_in_executor(None, self._tokenizer.decode, ids)
            return {"role": "assistant", "content": without_end(text, self._ends)}
        text, calls = await self._parser.extract_tool_calls(ids, self._schemas)
        reasoning, content = split_reasoning(without_end(text or "", self._ends))
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.tool_call_id or new_call_id(),
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call.arguments)},
                }
                for call in calls
            ]
        return message

    def ends_itself(self, reply: Sampled) -> bool:
        """See `agent_env.training.verl.engine.Engine`."""
        last = int(reply.token_ids[-1])
        if last in set(self._sampling.get("stop_token_ids") or ()) | {getattr(self._tokenizer, "eos_token_id", None)}:
            return True
        return ends_turn(str(self._tokenizer.decode([last])), self._ends)


def _arguments(raw: Any) -> Any:
    """Chat templates want an object; what is none stays as it is, for the model to be told."""
    if not isinstance(raw, str):
        return raw
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return cast("dict[str, Any]", value) if isinstance(value, dict) else raw
