"""What the loop needs of a model: an async callable that answers a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.errors import AgentEnvError

if TYPE_CHECKING:
    from agent_env.errors import FailureKind


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model.

    Attributes:
        message: the assistant message exactly as the engine sent it; it is echoed unchanged.
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``abort``.
        total_tokens: length of the conversation in tokens including this reply, `None` when unknown.
        completion_tokens: tokens of this reply, `None` when unknown.
    """

    message: dict[str, Any]
    finish_reason: str = "stop"
    total_tokens: int | None = None
    completion_tokens: int | None = None


class Model(Protocol):
    """Answers a conversation; it must not change ``messages`` or ``tools``."""

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        """The model's reply.

        Raises:
            ContextFull: the conversation does not fit the model's context any more.
            ModelFailed: there is no reply, for any other reason.
        """
        ...


class ContextFull(AgentEnvError):
    """The conversation does not fit the model's context: the model's own end, not a failure."""


class ModelFailed(AgentEnvError):
    """The model gave no reply; ``kind`` is ``model``, ``model_timeout`` or ``aborted``."""

    def __init__(self, message: str, kind: FailureKind = "model") -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
