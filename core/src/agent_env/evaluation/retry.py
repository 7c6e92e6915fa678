"""When a chat endpoint is asked again."""

from __future__ import annotations

import asyncio
import math
import random
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that an answer asks to wait (``Retry-After`` as seconds or date, ``retry-after-ms``), `None` = nothing.

    Args:
        headers: the answer's, with lower-case names.
        now: seconds since the epoch; default now.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - (time.time() if now is None else now))
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def backoff(attempt: int) -> float:
    """Seconds before attempt ``attempt`` (from 1) is repeated; jittered, so that episodes do not march in step."""
    return min(0.25 * 2.0 ** min(attempt, 8), 20.0) * random.uniform(0.5, 1.0)  # noqa: S311


class Throttle:
    """What an endpoint said about waiting, shared by all episodes: one that is told to wait makes all wait."""

    def __init__(self) -> None:
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Let nobody send for so long."""
        self._until = max(self._until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Return when sending is allowed."""
        while (left := self._until - time.monotonic()) > 0:  # noqa: ASYNC110 - others may move the time
            # Not all in the same instant again.
            await asyncio.sleep(left + random.uniform(0, 0.1))  # noqa: S311
