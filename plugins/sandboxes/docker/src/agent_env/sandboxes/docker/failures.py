"""What the engine says no with, as the errors of the contract."""

from __future__ import annotations

from agent_env.errors import (
    CreateFailed,
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxNotFound,
    SandboxUnavailable,
)

NAME = "docker"


class EngineError(Exception):
    """The engine refused a request.

    Attributes:
        status: HTTP status, 0 = there was no answer.
        message: what the engine said.
        retry_after: its ``Retry-After`` header in seconds, where it sent one.
    """

    def __init__(self, status: int, message: str, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = float(retry_after) if retry_after and retry_after.isdigit() else None


def to_error(error: EngineError, doing: str, sandbox_id: str | None = None) -> SandboxError:
    """The contract's error; ``doing`` says for whom and what, such as ``"gridsim: create"``."""
    text = f"{doing}: {error.message}"
    lowered = error.message.lower()
    if error.status == 0:
        return SandboxUnavailable(text, provider=NAME, sandbox_id=sandbox_id)
    if error.status in {401, 403} or "unauthorized" in lowered or "authentication required" in lowered:
        return SandboxAuthFailed(text, provider=NAME, sandbox_id=sandbox_id)
    if error.status == 429 or "toomanyrequests" in lowered:
        return RateLimited(text, retry_after=error.retry_after, provider=NAME)
    if error.status == 404 and "no such container" in lowered:
        return SandboxNotFound(text, provider=NAME, sandbox_id=sandbox_id)
    if "no space left on device" in lowered or "address pool" in lowered or "all predefined address" in lowered:
        return QuotaExceeded(text, provider=NAME, sandbox_id=sandbox_id)
    if error.status in {502, 503, 504}:
        return SandboxUnavailable(text, provider=NAME, sandbox_id=sandbox_id)
    return CreateFailed(text, provider=NAME, sandbox_id=sandbox_id)
