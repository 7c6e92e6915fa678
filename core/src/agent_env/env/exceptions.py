"""What an env's code raises on purpose."""

from __future__ import annotations

from typing import Literal

from agent_env.errors import AgentEnvError


class ToolError(AgentEnvError):
    """A tool says no: the model gets the message as the call's result (``isError``) and may try again.

    Any other exception of a tool is a defect of the env: it ends the episode as failed and the model never sees it.
    """


class ExtensionError(AgentEnvError):
    """An extension says no.

    Args:
        message: what is wrong.
        code: word for programs, such as ``no_such_day``.
        status: HTTP status, 400 to 599.
        retryable: whether the same request may succeed later.
        applied: whether the request took effect.
        hint: what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "extension_failed",
        status: int = 400,
        retryable: bool = False,
        applied: Literal["yes", "no", "unknown"] = "no",
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status if 400 <= status <= 599 else 500
        self.retryable = retryable
        self.applied = applied
        self.hint = hint
