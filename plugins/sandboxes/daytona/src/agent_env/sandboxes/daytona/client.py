"""One SDK client on one event loop, and requests that are repeated where that is safe and may help."""

from __future__ import annotations

import asyncio
import os
import random
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.errors import RateLimited, SandboxAuthFailed, SandboxTimeout, SandboxUnavailable, UsageError
from agent_env.sandboxes.daytona import sdk as sdks
from agent_env.sandboxes.daytona.failures import to_error
from agent_env.sandboxes.daytona.sdk import NAME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.sandboxes.daytona.options import DaytonaOptions
    from agent_env.sandboxes.daytona.sdk import Client

T = TypeVar("T")

_FIRST_DELAY = 0.25
_MOST_DELAY = 8.0


def backoff(attempt: int, asked: float | None) -> float:
    """Seconds before the next attempt: never less than the service asked for, jittered.

    Args:
        attempt: attempts that failed so far, from 1.
        asked: what the service said, in seconds.
    """
    spread: float = min(_MOST_DELAY, _FIRST_DELAY * 2.0 ** min(attempt - 1, 10))
    jitter = spread * (0.5 + random.random() / 2)  # noqa: S311
    return jitter if asked is None else asked + jitter / 4


class Api:
    """The client. It is made when first used; `close` must be called on the same event loop."""

    def __init__(self, options: DaytonaOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._opening: asyncio.Lock = asyncio.Lock()
        self.sdk: Any = None

    @property
    def client(self) -> Client:
        """The SDK's client.

        Raises:
            SandboxUnavailable: it was not opened, or is closed.
        """
        if self._client is None:
            raise SandboxUnavailable("the daytona provider is closed", provider=NAME, retryable=False)
        return self._client

    async def open(self) -> None:
        """Make the client.

        Raises:
            SandboxAuthFailed: there is no key; UsageError: the address is none;
            PluginLoadError: the SDK is missing, too old or broken.
        """
        async with self._opening:
            if self._client is not None:
                return
            options = self._options
            key = os.environ.get(options.api_key_var)
            if not key:
                raise SandboxAuthFailed(
                    f"the daytona sandbox needs an API key; set the environment variable {options.api_key_var}",
                    provider=NAME,
                )
            address = options.api_url or os.environ.get("DAYTONA_API_URL") or ""
            if address and not address.startswith(("http://", "https://")):
                raise UsageError(
                    "the daytona sandbox: the API's address (the option daytona.api_url, or DAYTONA_API_URL) must "
                    f"start with http:// or https://, not {address!r}"
                )
            self.sdk = await asyncio.to_thread(sdks.load)
            try:
                self._client = self._make(key)
            except Exception as error:
                raise to_error(error, "Daytona") from error

    def _make(self, key: str) -> Client:
        options = self._options
        config = self.sdk.DaytonaConfig(
            api_key=key,
            api_url=options.api_url,
            organization_id=options.organization_id,
            target=options.target,
            connection_pool_maxsize=None,
            # Its events are those of the whole organization; and where they cannot be had it leaves a session open.
            use_deprecated_polling=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            client: Client = self.sdk.AsyncDaytona(config)
        return client

    async def close(self) -> None:
        """Close it and its connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def call(
        self,
        make: Callable[[], Awaitable[T]],
        what: str,
        *,
        timeout: float | None = None,
        sandbox_id: str | None = None,
        again: bool = True,
    ) -> T:
        """One request; when the service is busy or broken for a moment it is repeated within ``timeout`` seconds.

        Args:
            make: makes the request.
            what: what is tried, for messages.
            timeout: seconds for everything; the provider's ``request_timeout_s`` when it is not given.
            sandbox_id: the sandbox, for messages.
            again: whether it may be repeated.

        Raises:
            SandboxError: the subclass says what happened.
        """
        loop = asyncio.get_running_loop()
        seconds = self._options.request_timeout_s if timeout is None else timeout
        end = loop.time() + seconds
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout_at(end):
                    return await make()
            except TimeoutError as error:
                if loop.time() >= end:
                    raise SandboxTimeout(
                        f"{what}: Daytona did not answer within {seconds:g} s", provider=NAME, sandbox_id=sandbox_id
                    ) from error
                failure = to_error(error, what, sandbox_id)
            except Exception as error:
                failure = to_error(error, what, sandbox_id)
                if not again or not isinstance(failure, (RateLimited, SandboxUnavailable)):
                    raise failure from error
            asked = failure.retry_after if isinstance(failure, RateLimited) else None
            delay = backoff(attempt, asked)
            if not again or loop.time() + delay >= end:
                raise failure
            await asyncio.sleep(delay)


def minutes(seconds: float) -> int:
    """Whole minutes, rounded up, at least one: Daytona counts in minutes and 0 would mean for ever."""
    return max(1, int(-(-seconds // 60)))
