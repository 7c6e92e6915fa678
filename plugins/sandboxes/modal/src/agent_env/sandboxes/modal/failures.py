"""Errors of the SDK as errors of the contract."""

from __future__ import annotations

from typing import Any, Final

from agent_env.errors import (
    BuildFailed,
    CreateFailed,
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxTimeout,
    SandboxUnavailable,
)
from agent_env.sandboxes.modal.sdk import sdk

NAME: Final = "modal"

_QUOTA = ("quota", "limit exceeded", "limit reached", "limit of", "maximum number", "budget", "spend", "concurren")
_RATE = ("rate limit", "too many requests", "throttl")
_AUTH_HINT = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run: modal token new"


def to_error(error: BaseException, doing: str, sandbox_id: str | None = None) -> SandboxError:
    """The contract's error for what the SDK raised; ``doing`` says for whom and what was tried.

    The order matters: the SDK's conflict is a kind of its invalid request, and its timeouts are not Python's.
    """
    if isinstance(error, SandboxError):
        return error
    it = sdk().errors
    text = f"{doing}: {_text(error)}"
    where: dict[str, Any] = {"provider": NAME, "sandbox_id": sandbox_id}
    if isinstance(error, it.AuthError | it.PermissionDeniedError):
        return SandboxAuthFailed(f"{text} ({_AUTH_HINT})", **where)
    if isinstance(error, it.ResourceExhaustedError):
        lowered = text.lower()
        if any(word in lowered for word in _QUOTA) and not any(word in lowered for word in _RATE):
            return QuotaExceeded(text, **where)
        return RateLimited(text, retry_after=_retry_after(error), provider=NAME)
    if isinstance(error, it.ImageBuildError):
        return BuildFailed(text, log=_text(error), provider=NAME)
    if isinstance(error, it.SandboxTerminatedError | it.ClientClosed):
        return SandboxGone(text, **where)
    if isinstance(error, it.TimeoutError | TimeoutError):
        return SandboxTimeout(text, **where)
    if isinstance(error, it.NotFoundError):
        return SandboxNotFound(text, **where) if sandbox_id is not None else CreateFailed(text, **where)
    if isinstance(error, it.ConflictError):
        return SandboxGone(text, **where) if sandbox_id is not None else CreateFailed(text, **where)
    if isinstance(error, it.VersionError):
        return SandboxUnavailable(
            f"{text} (upgrade the SDK: pip install -U agentenv-sandbox-modal)", retryable=False, **where
        )
    if isinstance(error, it.ServiceError | it.InternalError | it.InternalFailure | it.ConnectionError | OSError):
        return SandboxUnavailable(text, **where)
    if isinstance(error, it.UnimplementedError):
        return SandboxError(f"{text} (is this Modal's service, and does it fit the SDK?)", **where)
    return CreateFailed(text, **where) if sandbox_id is None else SandboxError(text, **where)


def settled(error: BaseException) -> bool:
    """Whether the service has surely made nothing: it refused the request."""
    it = sdk().errors
    refusals = (
        it.AuthError,
        it.PermissionDeniedError,
        it.ResourceExhaustedError,
        it.InvalidError,
        it.NotFoundError,
        it.ImageBuildError,
        it.UnimplementedError,
        SandboxError,
    )
    return isinstance(error, refusals)


def _text(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _retry_after(error: BaseException) -> float | None:
    """Seconds that the service asked to wait."""
    # The public attribute warns; the details are what the service sent beside the message.
    for detail in getattr(error, "_grpc_details", None) or ():
        seconds = getattr(detail, "retry_after_secs", None)
        if isinstance(seconds, float | int):
            return float(seconds)
    return None
