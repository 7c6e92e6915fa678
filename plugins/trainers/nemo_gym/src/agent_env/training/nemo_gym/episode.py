"""One episode as an agent of NeMo Gym plays it: seeded, called tool by tool, verified."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from agent_env.errors import Failure, UsageError
from agent_env.rollout.arguments import Arguments, read_arguments
from agent_env.rollout.opening import close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.steps import OVER, SteppedEpisode
from agent_env.rollout.tools import tools_difference

if TYPE_CHECKING:
    from agent_env.rollout.opening import Opened, Target
    from agent_env.rollout.result import Result
    from agent_env.rollout.session import Connect
    from agent_env.training.nemo_gym.wire import Ending, Row


class Episode(SteppedEpisode):
    """Plays one episode; a failure of it ends it and is in `result`, it is not raised.

    Args:
        target: the episode.
        row: its deadlines, and the tools that the model is offered.
        connect: makes the episode's session.
    """

    def __init__(self, target: Target, row: Row, *, connect: Connect = connect_openenv) -> None:
        super().__init__(target, tool_timeout=row.tool_timeout, reset_timeout=row.reset_timeout)
        self._row = row
        self._connect = connect
        self._names: list[str] = []
        self._lock = asyncio.Lock()
        self._opened: Opened | None = None

    async def begin(self) -> None:
        """Get the episode.

        Raises:
            UsageError: the row does not fit the served bundle.
        """
        async with self._lock:
            started = time.monotonic()
            try:
                self._opened = opened = await open_episode(
                    self.target,
                    None,
                    connect=self._connect,
                    deadline=started + self._row.reset_timeout,
                    list_timeout=self._row.tool_timeout,
                )
                specs = await opened.session.list_tools(timeout=self._row.tool_timeout)
            except Exception as error:  # noqa: BLE001  a failure of the episode, whatever it is
                self.fail_by(error)
            else:
                self.result.reset_retries = opened.retries
                self.result.timings.update(opened.turn.timings)
                self._names = [spec.name for spec in specs]
                difference = "" if self._row.tools is None else tools_difference(self._row.tools, specs)
                if difference:
                    self.fail(Failure("aborted", difference))
                    raise UsageError(difference)
            finally:
                self.result.seconds["reset"] = time.monotonic() - started

    async def call(self, name: str, raw: bytes) -> str:
        """Call a tool, ``end_turn`` included, with its arguments as they were sent; returns what the model reads."""
        async with self._lock:
            if self.over or self._opened is None:
                return OVER
            try:
                text = await self.play_call(self._opened.session, self._names, name, _arguments(raw))
            finally:
                if self.over:  # the agent may ask the model once more before it verifies: make room for others
                    await self.close()
            self.result.messages.clear()  # NeMo Gym keeps the conversation
            return text

    async def finish(self, ending: Ending) -> Result:
        """End the episode as the model left it, and close it. Again it gives the same result."""
        async with self._lock:
            if not self.over and self._opened is not None:
                self.result.invalid_calls = max(self.result.invalid_calls, ending.invalid_calls)
                await self.play_end(self._opened.session, ending.response, truncated=ending.truncated)
        await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        self.fail(Failure("aborted", "the episode was closed before it was verified"))
        opened, self._opened = self._opened, None
        if opened is not None:
            await close_quietly(opened.session)


def _arguments(raw: bytes) -> Arguments:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Arguments(None, "The arguments are not valid UTF-8. The call was not run.")
    if not text.strip():
        return Arguments({})
    return read_arguments(text)
