"""How a rollout ended, read off the messages and tokens that TRL kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.text import plain_text
from agent_env.training.trl.episode import Ending

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    Calls = list[tuple[str, dict[str, Any] | None]]


def ending_of(
    completion: object,
    token_ids: Sequence[int] | None,
    *,
    played: int,
    aliases: Mapping[str, Mapping[str, str]],
    ends: Collection[int],
) -> Ending:
    """The ending of a rollout.

    Args:
        completion: its messages behind the prompt, or its text.
        token_ids: its tokens.
        played: tool calls that the episode has answered.
        aliases: by tool, its parameters' own names by those that the model saw.
        ends: tokens that end a reply; empty when they are unknown.
    """
    cut = bool(ends) and token_ids is not None and len(token_ids) > 0 and token_ids[-1] not in ends
    if not isinstance(completion, list):
        return Ending(response=plain_text(completion), truncated=cut)
    messages = [cast("dict[str, Any]", item) for item in cast("list[object]", completion) if isinstance(item, dict)]
    replies = [message for message in messages if message.get("role") == "assistant"]
    by_reply = [_calls(reply) for reply in replies]
    invalid = sum(_invalid(reply) for reply in replies)
    response = plain_text(replies[-1].get("content")) if replies else ""
    if not messages or messages[-1].get("role") != "assistant":
        # No reply followed the answers to the last calls: there was no room, or no turn, for another.
        return Ending(response=response, invalid_calls=invalid, truncated=token_ids is not None)
    last = _playable(by_reply[-1], aliases)
    before = sum(len(_playable(calls, aliases)) for calls in by_reply[:-1])
    if not last:
        return Ending(response=response, invalid_calls=invalid, truncated=cut)
    if played > before:
        # TRL ran these calls and took their answers back, since they did not fit into the completion.
        return Ending(response=response, invalid_calls=invalid, truncated=True)
    # TRL stopped at max_tool_calling_iterations before it ran the calls of the last reply.
    return Ending(response=response, calls=tuple(last), invalid_calls=invalid, truncated=cut)


def _raw_calls(message: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Name and arguments of the calls of a message, whatever the arguments are."""
    raw: object = message.get("tool_calls")
    calls: list[tuple[str, object]] = []
    for item in cast("list[object]", raw) if isinstance(raw, list) else []:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        function: object = fields.get("function")
        named = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
        calls.append((str(named.get("name")), named.get("arguments")))
    return calls


def _invalid(message: Mapping[str, Any]) -> int:
    """Calls that never reached the episode, which counts the others itself."""
    return sum(
        not isinstance(arguments, dict) and read_arguments(arguments).value is None
        for _, arguments in _raw_calls(message)
    )


def _calls(message: Mapping[str, Any]) -> Calls:
    return [(name, read_arguments(arguments).value) for name, arguments in _raw_calls(message)]


def _playable(calls: Calls, aliases: Mapping[str, Mapping[str, str]]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that reach the env, with the parameters' own names."""
    return [
        (name, {aliases[name].get(key, key): value for key, value in arguments.items()})
        for name, arguments in calls
        if name in aliases and arguments is not None
    ]
