"""One session: it plays one episode after the other, whatever transport its requests come by."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, cast

from agent_env.episode import Outcome, UnknownTool
from agent_env.errors import AgentEnvError, EpisodeFailed, Failure, UsageError
from agent_env.openenv.server import replies
from agent_env.openenv.server.frames import Full, Observation, Refused
from agent_env.openenv.server.messages import CallTool, ListTools, Reset
from agent_env.openenv.server.toolsets import toolset
from agent_env.openenv.wire import END_TURN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.episode import Episode
    from agent_env.openenv.server.hub import Hub
    from agent_env.openenv.server.toolsets import Toolset

logger = logging.getLogger("agent_env.openenv")

_NO_EPISODE = "no episode is open: send a reset first"
_OVER = "the episode is over: send a reset to begin another"
_UNWIND_S = 30.0  # an engine call that was cancelled has this long to unwind before the episode is closed over it


class Play:
    """A session and its episode.

    Requests run one at a time. Each takes a ticket when it arrives (`arrive`); a reset or the end of the session
    makes all earlier tickets void, cancels the request that is running, and so a late request can never play on
    another episode than the one it was meant for.

    Attributes:
        slot: whether the session holds one of the server's slots.
        wait: seconds to wait in line for a slot at the reset; `None` = the slot was taken when it connected.
        first: the reset to play when tools are asked for before any reset, or `None`.
        users: HTTP requests that run on it.
        attached: a WebSocket is attached to this session, which was created over HTTP.
        ending: it was closed over HTTP while a WebSocket was attached: it ends when that goes.
    """

    __slots__ = (
        "_episode",
        "_hub",
        "_id",
        "_interrupted",
        "_lock",
        "_over",
        "_running",
        "_steps",
        "_task",
        "_ticket",
        "attached",
        "ending",
        "first",
        "slot",
        "users",
        "wait",
    )

    def __init__(self, hub: Hub, *, slot: bool, wait: float | None = None, first: Reset | None = None) -> None:
        self._hub = hub
        self._id: str | None = None
        self._lock = asyncio.Lock()
        self._episode: Episode | None = None
        self._task: replies.Task | None = None
        self._over = False
        self._steps = 0
        self._ticket = 0
        self._running: asyncio.Task[Any] | None = None
        self._interrupted: str | None = None
        self.slot = slot
        self.wait = wait
        self.first = first
        self.attached = False
        self.users = 0
        self.ending = False

    @property
    def id(self) -> str:
        """The session's id."""
        if self._id is None:
            self._id = str(uuid.uuid4())
        return self._id

    @property
    def has_episode(self) -> bool:
        """Whether an episode was begun, even if it is over."""
        return self._episode is not None

    def arrive(self, request: object) -> int:
        """Note a request's arrival; the ticket goes to `play`. A reset cancels what came before it."""
        if isinstance(request, Reset):
            self.interrupt("given up: a later reset came before it was done")
        return self._ticket

    def interrupt(self, why: str) -> None:
        """Void all tickets and cancel the request that is running."""
        self._ticket += 1
        if self._running is not None and self._interrupted is None:
            self._interrupted = why
            self._running.cancel()

    async def play(self, request: Reset | ListTools | CallTool, ticket: int) -> Observation:
        """Play one request.

        Raises:
            Refused: it cannot be played; the session goes on.
        """
        async with self._lock:
            if ticket != self._ticket:
                raise Refused("given up: the session was reset or closed before its turn came")
            task = asyncio.current_task()
            self._running = task
            try:
                return await self._play(request)
            except asyncio.CancelledError:
                why = self._interrupted
                if why is None or task is None or task.uncancel() > 0:
                    raise
                if self._hub.stopping:
                    raise Refused(why, retryable=True) from None
                raise Refused(why) from None
            finally:
                self._running = None
                self._interrupted = None

    async def _play(self, request: Reset | ListTools | CallTool) -> Observation:
        if isinstance(request, Reset):
            return await self._reset(request)
        episode, task = self._episode, self._task
        if episode is None or task is None:
            if self.first is None:
                raise Refused(_NO_EPISODE)
            begun = await self._reset(self.first)
            episode, task = self._episode, self._task
            if begun.done or episode is None or task is None:
                return begun
        if isinstance(request, ListTools):
            return Observation(raw=toolset(episode.tools).observation, done=self._over)
        if self._over:
            return replies.tool_error(request.name, "execution_error", _OVER, done=True)
        given: object = request.arguments
        if not isinstance(given, dict):
            words = "the arguments must be a JSON object"
            return replies.tool_error(request.name, "invalid_args", words)
        arguments = cast("dict[str, Any]", given)
        try:
            if request.name == END_TURN:
                return await self._end_turn(episode, task, request, arguments)
            return await self._call(episode, request, arguments)
        except EpisodeFailed as error:
            return self._fail(episode, task, error.failure, request.name)
        except UsageError as error:
            raise Refused(str(error)) from None
        except Exception as error:
            logger.exception("internal error in %s of episode %s", request.name, episode.id)
            words = f"internal error in {request.name}: {type(error).__name__}: {error}"
            return self._fail(episode, task, Failure("server", words), request.name)

    async def tools(self, ticket: int) -> Toolset:
        """The tools of the episode; before a reset those that every task of the bundle has.

        Raises:
            Refused: the bundle's tasks differ in their tools and none was begun.
        """
        if self._episode is None and self.first is None:
            return await self._hub.common_tools(self)
        await self.play(ListTools(), ticket)
        if self._episode is None:
            raise Refused(_NO_EPISODE)
        return toolset(self._episode.tools)

    # -- what a request does -------------------------------------------------------------------------------------

    async def _reset(self, request: Reset) -> Observation:
        await self.end_episode("reset")
        hub = self._hub
        if hub.stopping:
            raise Refused("the server is stopping", retryable=True)
        if not self.slot:
            if not await hub.slots.wait(self.wait or 0.0):
                hub.note_full()
                raise Full(hub.slots.active, hub.slots.limit)
            self.slot = True
        episode, task = hub.begin(request)
        self._episode, self._task, self._over, self._steps = episode, task, False, 0
        try:
            turn = await episode.start(timeout=request.timeout_s)
        except EpisodeFailed as error:
            return self._fail(episode, task, error.failure, None)
        except AgentEnvError as error:
            return self._fail(episode, task, Failure("deploy", str(error)), None)
        except Exception as error:
            logger.exception("internal error at the start of episode %s", episode.id)
            words = f"internal error at the start: {type(error).__name__}: {error}"
            return self._fail(episode, task, Failure("server", words), None)
        return replies.opened(turn, task, episode.isolation)

    async def _call(self, episode: Episode, request: CallTool, arguments: Mapping[str, Any]) -> Observation:
        try:
            result = await episode.call_tool(request.name, arguments, timeout=request.timeout_s)
        except UnknownTool as error:
            return replies.tool_error(request.name, "tool_not_found", str(error))
        self._steps += 1
        return replies.answered(request.name, result)

    async def _end_turn(
        self, episode: Episode, task: replies.Task, request: CallTool, arguments: Mapping[str, Any]
    ) -> Observation:
        response = arguments.get("response", "")
        if not isinstance(response, str) or not {"response"} >= arguments.keys():
            words = 'end_turn takes {"response": text}'
            return replies.tool_error(END_TURN, "invalid_args", words)
        self._steps += 1
        got = await episode.end_turn(
            response, timeout=request.timeout_s, invalid_calls=request.invalid_calls, truncated=request.truncated
        )
        return self._ended(episode, task, got) if isinstance(got, Outcome) else replies.next_turn(got, task)

    def _ended(self, episode: Episode, task: replies.Task, outcome: Outcome) -> Observation:
        if outcome.failure is not None:
            return self._fail(episode, task, outcome.failure, END_TURN, outcome.timings)
        reply = replies.ended(outcome, task)
        self._over = True
        if reply.reward is None:
            self._hub.count_failure("no_reward", str(reply.metadata.get("error")), episode.id, task)
        else:
            self._hub.scored += 1
        return reply

    def _fail(
        self,
        episode: Episode,
        task: replies.Task,
        failure: Failure,
        tool: str | None,
        timings: dict[str, float] | None = None,
    ) -> Observation:
        self._over = True
        self._hub.count_failure(failure.kind, failure.message, episode.id, task)
        if timings is None and episode.outcome is not None:
            timings = episode.outcome.timings
        return replies.failed(failure, task, tool=tool, timings=timings)

    # -- state and end -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The session's state as ``state`` and ``/state`` send it."""
        episode = self._episode
        if episode is None:
            return {"episode_id": None, "step_count": 0}
        return {"episode_id": episode.id, "step_count": self._steps, "task": self._task, "done": self._over}

    async def end_episode(self, why: str) -> None:
        """Tear the open episode down, if there is one. After a cancellation it can be asked for again."""
        episode = self._episode
        if episode is not None:
            await self._hub.close_episode(episode, why)
            self._hub.live.discard(episode.id)
            self._episode = None
            self._task = None

    async def close(self, why: str) -> None:
        """End the session; it holds no slot when this returns."""
        self.interrupt(f"given up: {why}")
        held = False
        try:
            if self._lock.locked():
                async with asyncio.timeout(_UNWIND_S):
                    held = await self._lock.acquire()
            else:
                held = await self._lock.acquire()
        except TimeoutError:
            logger.warning("a request of session %s does not end; its episode is closed under it", self.id)
        try:
            await self.end_episode(why)
        finally:
            if held:
                self._lock.release()
            if self.slot:
                self.slot = False
                self._hub.slots.release()
