"""Requests to Modal with a deadline: the SDK itself waits for as long as the connection holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")

REQUEST_S = 60.0


async def within(work: Awaitable[T], seconds: float = REQUEST_S) -> T:
    """The result.

    Raises:
        TimeoutError: it did not come in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise TimeoutError(f"no answer within {seconds:g} s") from error
