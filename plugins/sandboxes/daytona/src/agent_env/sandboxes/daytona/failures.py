"""From the SDK's exceptions to ours. The order of the questions matters: its classes derive from each other."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import (
    CreateFailed,
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxNotFound,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from agent_env.sandboxes.daytona.sdk import NAME, load

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUOTA = re.compile(
    r"quota|limit (?:is )?(?:exceeded|reached)|exceed(?:s|ed)? .{0,40}limit|maximum allowed|depleted|credits|suspended",
    re.IGNORECASE,
)
_MOST_RETRY_AFTER = 600.0


class Conflict(SandboxError):
    """The sandbox is changing its state, or the name is taken."""

    retryable = True


def to_error(error: BaseException, what: str, sandbox_id: str | None = None) -> SandboxError:
    """What an exception of the SDK means.

    Args:
        error: what was raised.
        what: what was tried, for the message.
        sandbox_id: the sandbox, where there is one.
    """
    if isinstance(error, SandboxError):
        return error
    sdk = load()
    message = f"{what}: {_said(error)}"
    about: dict[str, Any] = {"provider": NAME, "sandbox_id": sandbox_id}
    if isinstance(error, sdk.DaytonaRateLimitError):
        if _QUOTA.search(str(error)) and "rate limit" not in str(error).lower():
            return QuotaExceeded(message, **about)
        return RateLimited(f"{what}: too many requests: {_said(error)}", retry_after=retry_after(error), provider=NAME)
    if isinstance(error, sdk.DaytonaAuthenticationError):
        return SandboxAuthFailed(
            f"{what}: Daytona did not accept the API key ({_said(error)}); set DAYTONA_API_KEY to a valid one", **about
        )
    if isinstance(error, (sdk.DaytonaForbiddenError, sdk.DaytonaBadRequestError)) and _QUOTA.search(str(error)):
        return QuotaExceeded(message, **about)
    if isinstance(error, sdk.DaytonaForbiddenError):
        return SandboxAuthFailed(f"{what}: the API key may not do this: {_said(error)}", **about)
    if isinstance(error, (sdk.DaytonaNotFoundError, sdk.DaytonaGoneError)):
        return SandboxNotFound(message, **about)
    if isinstance(error, (sdk.DaytonaQueueTimeoutError, sdk.DaytonaSpotEvictedError)):
        return SandboxUnavailable(message, **about)
    if isinstance(error, (sdk.DaytonaTimeoutError, TimeoutError)):  # a connection's timeout is both
        return SandboxTimeout(message, **about)
    if isinstance(
        error,
        (
            sdk.DaytonaConnectionError,
            sdk.DaytonaServiceUnavailableError,
            sdk.DaytonaBadGatewayError,
            sdk.DaytonaInternalServerError,
        ),
    ):
        return SandboxUnavailable(message, **about)
    if isinstance(error, sdk.DaytonaConflictError):
        return Conflict(message, **about)
    if isinstance(error, (sdk.DaytonaBadRequestError, sdk.DaytonaUnprocessableEntityError)):
        return SandboxUnsupported(message, **about)
    status = getattr(error, "status_code", None) or getattr(error.__cause__, "status", None)
    if isinstance(status, int):
        return _by_status(status, error, message, about)
    if "error state" in str(error):
        return CreateFailed(message, retryable=True, **about)
    return SandboxError(message, **about)


def _by_status(status: int, error: BaseException, message: str, about: dict[str, Any]) -> SandboxError:
    """Statuses for which the SDK has no class, or that it kept from its classes (uploads)."""
    if status == 429:
        return RateLimited(message, retry_after=retry_after(error), provider=NAME)
    if status == 401:
        return SandboxAuthFailed(message, **about)
    if status in {404, 410}:
        return SandboxNotFound(message, **about)
    return SandboxUnavailable(message, **about) if status >= 500 else SandboxError(message, **about)


def lost(error: BaseException) -> bool:
    """Whether a create may have been done although it failed."""
    sdk = load()
    sure = (
        sdk.DaytonaRateLimitError,
        sdk.DaytonaAuthenticationError,
        sdk.DaytonaForbiddenError,
        sdk.DaytonaNotFoundError,
        sdk.DaytonaBadRequestError,
        sdk.DaytonaUnprocessableEntityError,
    )
    return not isinstance(error, sure)


def retry_after(error: BaseException) -> float | None:
    """Seconds that the service asks to wait."""
    headers: Mapping[str, Any] = cast("Mapping[str, Any]", getattr(error, "headers", None) or {})
    for name, value in headers.items():
        if name.lower() == "retry-after" or name.lower().startswith("retry-after-"):
            seconds = _seconds(str(value))
            if seconds is not None:
                return min(max(seconds, 0.0), _MOST_RETRY_AFTER)
    return None


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except ValueError:
        return None


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:1000] or type(error).__name__
