"""Asks a Miles session whether it recorded a reply whose answer was lost on the way.

Asking the model again after the session recorded the turn would roll it back (v1) or grow a second branch (v2).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from agent_env.rollout.http import new_client

if TYPE_CHECKING:
    from agent_env.rollout.chat import ChatModel
    from agent_env.rollout.model import Model, Reply

_ASK_TIMEOUT = 30.0


class RecordedTurns:
    """Counts the replies of one session, so that a lost one can be told from one that never was."""

    def __init__(self, base_url: str) -> None:
        self._url = base_url.rstrip("/")
        self._turns = 0

    def counting(self, model: ChatModel) -> Model:
        """``model``, its replies counted."""
        return _Counting(model, self)

    def count(self) -> None:
        self._turns += 1

    async def recover(self) -> dict[str, Any] | None:
        """The chat completion that the session recorded beyond the counted ones, `None` when there is none."""
        import httpx

        try:
            async with asyncio.timeout(_ASK_TIMEOUT), new_client(self._url) as client:
                response = await client.get(self._url)
            payload: object = response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, TimeoutError, ValueError):
            return None
        if not isinstance(payload, dict):
            return None
        records = cast("dict[str, Any]", payload).get("records")
        if not isinstance(records, list) or len(cast("list[object]", records)) <= self._turns:
            return None
        record = cast("list[object]", records)[self._turns]
        answer = cast("dict[str, Any]", record).get("response") if isinstance(record, dict) else None
        return cast("dict[str, Any]", answer) if isinstance(answer, dict) else None


class _Counting:
    def __init__(self, model: ChatModel, turns: RecordedTurns) -> None:
        self._model = model
        self._turns = turns

    @property
    def retried(self) -> int:
        return self._model.retried

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        reply = await self._model(messages, tools)
        self._turns.count()
        return reply
