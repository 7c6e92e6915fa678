"""Rate limits of creates: the provider is told, so that all processes of the account wait, and not one in the SDK."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

_CREATES = ("SandboxCreateV2", "SandboxCreate")


def raise_limits(client: Any) -> None:
    """Let creates of this client, which has to be our own, fail when Modal is asked too often.

    The SDK waits by itself when Modal names a time, and its one setting for that holds for the whole process and for
    commands too. An SDK of another make than the one that this knows goes on waiting by itself.
    """
    for name in _CREATES:
        method = getattr(getattr(client, "_stub", None), name, None)
        once = getattr(method, "direct", None)
        if once is not None:
            setattr(method, "direct", _Told(once))  # noqa: B010 - it is the SDK's, of no type that is known


class _Told:
    """One request of the SDK, from whose refusals the time to wait is hidden: not from us, but from the SDK."""

    def __init__(self, once: Any) -> None:
        self._once = once

    async def __call__(self, request: Any, **options: Any) -> Any:
        try:
            return await self._once(request, **options)
        except Exception as error:
            details: Any = getattr(error, "details", None)
            if getattr(getattr(error, "status", None), "name", "") == "RESOURCE_EXHAUSTED" and details:
                setattr(error, "details", [_hidden(detail) for detail in details])  # noqa: B010 - the SDK passes it on
            raise


def _hidden(detail: Any) -> Any:
    """A time to wait that the SDK does not know for one."""
    seconds = getattr(detail, "retry_after_secs", None)
    return detail if seconds is None else SimpleNamespace(retry_after_secs=seconds)
