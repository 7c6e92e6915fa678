"""The resources server without its HTTP side: sessions by their id, each with one episode."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.errors import EpisodeFailed, Failure, UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.opening import Target
from agent_env.rollout.result import Result, json_safe
from agent_env.rollout.rows import check_settings
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.steps import OVER
from agent_env.training.nemo_gym.episode import Episode
from agent_env.training.nemo_gym.wire import read_ending, read_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from agent_env.rollout.session import Connect
    from agent_env.training.nemo_gym.settings import ServerSettings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    episode: Episode
    used: float
    busy: int = 0
    counted: bool = False


class Service:
    """Plays episodes for the agents of NeMo Gym; use it as ``async with Service(settings) as service:``.

    Args:
        settings: the bundle's server, and what a failure becomes.
        connect: makes the session of an episode.

    Raises:
        UsageError: the address holds a password, or the token's variable is not set.
    """

    def __init__(self, settings: ServerSettings, *, connect: Connect = connect_openenv) -> None:
        self._settings = settings
        self._token = check_settings(settings.url, RowSettings(token_var=settings.token_var))
        self._connect = connect
        self._sessions: dict[str, _Session] = {}
        self._failures = 0
        self._reaper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reaper = asyncio.get_running_loop().create_task(self._reap())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            reaper.cancel()
            await asyncio.wait({reaper})
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.episode.close() for session in sessions))

    def __len__(self) -> int:
        """Sessions that are held, verified ones included until `ServerSettings.idle_timeout`."""
        return len(self._sessions)

    async def seed(self, body: Mapping[str, Any]) -> str:
        """Begin the episode of a row; returns the id of its session.

        Raises:
            UsageError: the row is wrong, or does not fit the served bundle.
            EpisodeFailed: the episode could not be got, and failures are raised.
        """
        row = read_row(body)
        if row.token_var is not None and self._token is None:
            raise UsageError(f"the rows need a token: start the resources server with --token-var {row.token_var}")
        target = Target(self._settings.url, row.split, row.index, seed=row.seed, token=self._token)
        episode = Episode(target, row, connect=self._connect)
        begun = False
        try:
            await episode.begin()
            failure = episode.result.failure
            if failure is not None:
                # What the server refuses for good is a mistake in the setup, which no mask should hide.
                final = failure.kind == "server" and not failure.retryable
                self._count(failure)
                if final or not self._masking():
                    raise EpisodeFailed(failure)
            begun = True
        finally:
            if not begun:
                await episode.close()
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = _Session(episode, time.monotonic(), counted=failure is not None)
        return session_id

    async def call(self, session_id: str | None, name: str, raw: bytes) -> str:
        """Call a tool with the JSON text of its arguments; returns what the model reads."""
        session = self._sessions.get(session_id or "")
        if session is None:
            return OVER
        session.busy += 1
        try:
            return await session.episode.call(name, raw)
        finally:
            session.busy -= 1
            session.used = time.monotonic()

    async def verify(self, session_id: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a ``/verify`` with the episode's reward; again it gives the same.

        A failed episode has ``instance_config.mask_sample``, and a reward that is nothing but a placeholder.

        Raises:
            UsageError: the request holds no response.
            EpisodeFailed: the episode failed, and failures are raised.
        """
        ending = read_ending(body.get("response"))
        session = self._sessions.get(session_id or "")
        if session is None:
            words = "the resources server does not know this session: it was restarted, or the session stood idle"
            result = Result()
            result.fail(Failure("aborted", words, retryable=True))
            self._count(result.failure)
            return self._answer(body, result)
        session.busy += 1
        try:
            result = await session.episode.finish(ending)
        finally:
            session.busy -= 1
            session.used = time.monotonic()
        if not session.counted:
            session.counted = True
            self._count(result.failure)
        return self._answer(body, result)

    def result(self, session_id: str) -> Result:
        """How the episode of a session ended."""
        return self._sessions[session_id].episode.result

    # -- inside -------------------------------------------------------------------------------------------------------

    def _answer(self, body: Mapping[str, Any], result: Result) -> dict[str, Any]:
        failure = result.failure
        if failure is not None and not self._masking():
            raise EpisodeFailed(failure)
        about = {
            "failure": None
            if failure is None
            else {"kind": failure.kind, "message": failure.message, "retryable": failure.retryable},
            "scores": dict(result.scores),
            "tool_calls": result.tool_calls,
            "invalid_calls": result.invalid_calls,
            "unknown_calls": result.unknown_calls,
            "truncated": result.truncated,
            "end_reason": result.end_reason,
            "timings": dict(result.timings),
        }
        answer = {**body, "reward": 0.0 if result.reward is None else result.reward}
        answer["agentenv_result"] = cast("dict[str, Any]", json_safe(about))
        if failure is not None:
            given: object = body.get("instance_config")
            fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
            answer["instance_config"] = {**fields, "mask_sample": True}
        return answer

    def _count(self, failure: Failure | None) -> None:
        """Count failed episodes in a row."""
        if failure is None:
            self._failures = 0
            return
        self._failures += 1
        _log.warning("an episode failed: %s", failure)
        if self._failures == self._settings.most_failures + 1:
            _log.error("%d episodes failed in a row: failures are raised until one is scored", self._failures)

    def _masking(self) -> bool:
        return self._settings.on_infra_failure == "mask" and self._failures <= self._settings.most_failures

    async def _reap(self) -> None:
        pause = min(max(self._settings.idle_timeout / 4, 0.05), 60.0)
        while True:
            await asyncio.sleep(pause)
            oldest = time.monotonic() - self._settings.idle_timeout
            idle = [key for key, one in self._sessions.items() if not one.busy and one.used < oldest]
            await asyncio.gather(*(self._sessions.pop(key).episode.close() for key in idle))
