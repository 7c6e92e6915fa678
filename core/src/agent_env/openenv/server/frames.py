"""The frames that the server sends, as JSON texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError
from agent_env.openenv.wire import write_json

if TYPE_CHECKING:
    from agent_env.openenv.wire import ErrorCode

_EMPTY: dict[str, Any] = {}


@dataclass(slots=True)
class Observation:
    """The reply to a reset or a step.

    Attributes:
        observation: its fields besides ``metadata``.
        reward: a finite number, or `None`.
        done: the episode is over.
        metadata: additions; they travel inside the observation and, when there are any, beside it, as stock servers
            send them.
        raw: the JSON of ``"observation"`` where it is kept ready; ``observation`` and ``metadata`` are then empty.
    """

    observation: dict[str, Any] = field(default_factory=dict[str, Any])
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None

    def body(self) -> dict[str, Any]:
        """The reply as HTTP sends it."""
        return {
            "observation": {"metadata": self.metadata, **self.observation},
            "reward": self.reward,
            "done": self.done,
            "metadata": self.metadata or None,
        }

    def frame(self) -> str:
        """The reply as a frame.

        Raises:
            ValueError: it is no JSON.
        """
        if self.raw is not None:
            done = "true" if self.done else "false"
            return f'{{"type":"observation","data":{{"observation":{self.raw},"reward":null,"done":{done}}}}}'
        data: dict[str, Any] = {
            "observation": {"metadata": self.metadata, **self.observation},
            "reward": self.reward,
            "done": self.done,
        }
        if self.metadata:
            data["metadata"] = self.metadata
        return write_json({"type": "observation", "data": data})


class Refused(AgentEnvError):
    """A request that is answered with an error; the session goes on unless the code ends it.

    Attributes:
        code: the wire's error code.
        extra: further fields of the error's data.
    """

    def __init__(self, message: str, code: ErrorCode = "EXECUTION_ERROR", **extra: Any) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.extra = extra

    def frame(self) -> str:
        """The error as a frame."""
        return error_frame(str(self), self.code, **self.extra)


class BadMessage(Refused):
    """A message that does not have the documented form."""

    def __init__(self, *errors: dict[str, Any]) -> None:
        said = [
            f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}".removeprefix(": ") for error in errors
        ]
        words = "; ".join(said)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"Invalid message: {said[0]}{more}", "VALIDATION_ERROR", errors=list(errors))
        self.words = words
        self.errors = errors


class Full(Refused):
    """No room, in the words of stock servers."""

    def __init__(self, active: int, limit: int) -> None:
        super().__init__(
            f"Server at capacity: {active}/{limit} sessions active. Cannot accept new connections.",
            "CAPACITY_REACHED",
            active_sessions=active,
            max_sessions=limit,
        )


def error_frame(message: str, code: ErrorCode, **extra: Any) -> str:
    """An error frame."""
    return write_json({"type": "error", "data": {"message": message, "code": code, **extra}})


def state_frame(state: dict[str, Any]) -> str:
    """A state frame."""
    return write_json({"type": "state", "data": state})
