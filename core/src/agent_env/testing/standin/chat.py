"""One chat call of a session: position, generate, record, answer."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from agent_env.testing.standin.replies import engine_message
from agent_env.testing.standin.tokens import completion_tokens
from agent_env.testing.standin.turns import SessionError, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.testing.standin.faults import Fault
    from agent_env.testing.standin.session import Session


def read_request(body: object) -> dict[str, Any]:
    """Check what a chat request must hold.

    Raises:
        SessionError: 400 with the words.
    """
    if not isinstance(body, dict):
        raise SessionError(400, "invalid JSON body: an object is expected")
    fields: dict[str, Any] = dict(body)  # pyright: ignore[reportUnknownArgumentType]
    messages = fields.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):  # pyright: ignore[reportUnknownVariableType]
        raise SessionError(400, "messages must be a list of objects")
    if fields.get("chat_template_kwargs") is not None and not isinstance(fields["chat_template_kwargs"], dict):
        raise SessionError(400, "chat_template_kwargs must be an object")
    return fields


def make_message(
    reply: Mapping[str, Any] | str | None, fault: Fault, request: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The engine's message for what the policy returned, and its finish reason."""
    message = engine_message(fault.reply if fault.reply is not None else reply)
    if fault.finish in {"abort", "length"}:
        message["content"] = message["content"][: len(message["content"]) // 2]
        message["tool_calls"] = None
        return message, fault.finish
    limit = request.get("max_tokens")
    if isinstance(limit, int) and len(completion_tokens(message)) > limit:
        message["content"] = message["content"].encode()[:limit].decode("utf-8", "ignore")
        message["tool_calls"] = None
        return message, "length"
    return message, fault.finish or ("tool_calls" if message["tool_calls"] else "stop")


def answer_of(message: dict[str, Any], finish: str, prompt: Sequence[int], completion: Sequence[int]) -> dict[str, Any]:
    """The chat completion as SGLang words it through a session."""
    reply_id = secrets.token_hex(16)
    meta_finish: dict[str, Any] = {"type": "stop" if finish == "tool_calls" else finish}
    return {
        "id": reply_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "stand-in",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": finish,
                "matched_stop": None,
                "meta_info": {
                    "id": reply_id,
                    "finish_reason": meta_finish,
                    "prompt_tokens": len(prompt),
                    "completion_tokens": len(completion),
                    "cached_tokens": 0,
                    "weight_version": "0",
                    "e2e_latency": 0.0,
                    "output_token_logprobs": [[-1.0, token, None] for token in completion],
                },
            }
        ],
        "usage": {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(completion),
            "total_tokens": len(prompt) + len(completion),
        },
        "metadata": {"weight_version": "0"},
    }


def record(
    session: Session, parent: Turn | None, request: dict[str, Any], prompt: list[int], answer: dict[str, Any]
) -> None:
    """Commit a generation to its session."""
    choice = answer["choices"][0]
    known = sum(len(turn.delta) for turn in parent.path()) if parent is not None else 0
    session.history.commit(
        Turn(
            number=0,
            delta=[*request["messages"][known:], choice["message"]],
            prompt=prompt,
            completion=completion_tokens(choice["message"]),
            finish=choice["finish_reason"],
            request=request,
            response=answer,
            parent=parent,
        ),
        parent,
    )
