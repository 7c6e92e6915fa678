"""Errors of the SDK as errors of the contract."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

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
    SandboxUnsupported,
)
from agent_env.sandboxes.e2b.sdk import sdk, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent_env.sandboxes.e2b.service import Service

T = TypeVar("T")

_QUOTA = ("maximum number of", "concurrent", "quota", "sandbox limit", "limit of sandboxes")


def is_sdk_error(error: BaseException, *names: str) -> bool:
    """Whether it is an SDK's error of one of these classes; older SDKs lack some of them."""
    kinds = (getattr(sdk().errors, name, None) for name in names)
    return isinstance(error, tuple(kind for kind in kinds if kind is not None))


def to_error(error: Exception, doing: str, service: Service, sandbox_id: str | None = None) -> SandboxError:
    """The contract's error for what the SDK raised; ``doing`` says what was tried.

    The order matters: in the SDK a sandbox that is gone is a kind of timeout, and a refused key is no sandbox error.
    """
    if isinstance(error, SandboxError):
        return error
    name = service.name
    text = f"{doing}: {text_of(error)}"
    if is_sdk_error(error, "SandboxNotRunningException"):
        return SandboxGone(text, provider=name, sandbox_id=sandbox_id)
    if is_sdk_error(error, "SandboxUnreachableException", "ServiceBusyException"):
        return SandboxUnavailable(text, provider=name, sandbox_id=sandbox_id)
    if is_sdk_error(error, "TimeoutException") or isinstance(error, TimeoutError | sdk().httpx.TimeoutException):
        return SandboxTimeout(text, provider=name, sandbox_id=sandbox_id)
    if is_sdk_error(error, "AuthenticationException"):
        return SandboxAuthFailed(f"{text} ({service.key_hint})", provider=name, sandbox_id=sandbox_id)
    if is_sdk_error(error, "RateLimitException"):
        if is_quota(text):
            return QuotaExceeded(text, provider=name, sandbox_id=sandbox_id)
        return RateLimited(text, retry_after=retry_after(error), provider=name)
    if is_sdk_error(error, "SandboxNotFoundException"):
        return SandboxNotFound(text, provider=name, sandbox_id=sandbox_id)
    if is_sdk_error(error, "BuildException"):
        return BuildFailed(text, provider=name)
    if is_sdk_error(error, "SandboxException"):
        return _by_status(error, text, service, sandbox_id)
    if isinstance(error, sdk().httpx.HTTPError | OSError):
        return SandboxUnavailable(f"{text} (is {service.address} right?)", provider=name, sandbox_id=sandbox_id)
    return SandboxError(text, provider=name, sandbox_id=sandbox_id)


def _by_status(error: Exception, text: str, service: Service, sandbox_id: str | None) -> SandboxError:
    status = getattr(error, "status_code", None)
    name = service.name
    if status == 405:
        return too_old(service)
    if status in {401, 403}:
        if is_quota(text):
            return QuotaExceeded(text, provider=name, sandbox_id=sandbox_id)
        return SandboxAuthFailed(f"{text} ({service.key_hint})", provider=name, sandbox_id=sandbox_id)
    if isinstance(status, int) and status >= 500:
        return SandboxUnavailable(text, provider=name, sandbox_id=sandbox_id)
    return CreateFailed(text, provider=name, sandbox_id=sandbox_id)


async def heedful(call: Awaitable[T]) -> T:
    """The result of a call of the SDK, which takes a cancel for an error of its own: it is one all the same."""
    try:
        return await call
    except Exception as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise


def retry_after(error: BaseException) -> float | None:
    """Seconds that the service asked to wait.

    The SDK's exception has no headers. The answer that it was made from is a variable of the function that raised it.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for value in (value for frame in reversed(frames) for value in frame.f_locals.values()):
        if getattr(value, "status_code", None) == 429:
            headers: Any = getattr(value, "headers", None)
            asked = str(headers.get("retry-after", "")) if headers else ""
            if asked.isascii() and asked.isdigit():
                return float(asked)
    return None


def is_quota(text: str) -> bool:
    """Whether a refusal speaks of the account's quota, not of a rate."""
    lowered = text.lower()
    return any(word in lowered for word in _QUOTA)


def too_old(service: Service, what: str = "creates sandboxes with POST /v2/sandboxes") -> SandboxUnsupported:
    """The server does not know a route of this SDK."""
    return SandboxUnsupported(
        f"the server at {service.address} is too old for the installed E2B SDK, which {what}, a route that it "
        "does not know: "
        "upgrade the server to a version that has this route, or, until then, install an older SDK into this "
        "environment: pip install --force-reinstall 'e2b<2.50'",
        provider=service.name,
    )
