"""What all sessions of a server share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.errors import AgentEnvError, BundleError, UsageError
from agent_env.openenv.server.frames import Full, Refused
from agent_env.openenv.server.leases import Leases
from agent_env.openenv.server.play import Play
from agent_env.openenv.server.slots import Slots
from agent_env.openenv.server.toolsets import toolset

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator

    from agent_env.bundle import Bundle
    from agent_env.episode import Engine, Episode
    from agent_env.openenv.server.messages import Reset
    from agent_env.openenv.server.toolsets import Toolset

logger = logging.getLogger("agent_env.openenv")

T = TypeVar("T")

HURRIED_S = 3.0
"""How long the end of sandboxes is waited for after a second signal."""


class Hub:
    """The engine, the slots, the sessions and the counts of one server.

    Attributes:
        live: ids of the episodes that are not torn down yet.
        sessions: sessions created over HTTP, by id.
        progress: gets lines on what is prepared at the start.
        scored: episodes that ended with a reward.
        failures: episodes that failed, by kind.
        stopping: no session and no episode begins any more.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        limit: int,
        lease_s: float,
        shutdown_deadline: float,
        max_message_bytes: int,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.engine = engine
        self.progress = progress
        self.slots = Slots(limit)
        self.leases = Leases(lease_s, self._lease_expired)
        self.shutdown_deadline = shutdown_deadline
        self.max_message_bytes = max_message_bytes
        self.live: set[str] = set()
        self.sessions: dict[str, Play] = {}
        self.scored = 0
        self.failures: Counter[str] = Counter()
        self.started = False
        self.stopping = False
        self.stopped = False
        self._hurry = asyncio.Event()
        self._plays: set[Play] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._common: Toolset | None = None
        self._told_full = False

    @property
    def bundle(self) -> Bundle:
        """What is served."""
        return self.engine.bundle

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Get ready to play. Idempotent."""
        if self.started:
            return
        await self.engine.start(progress=self.progress)
        self.started = True
        self.stopping = self.stopped = False
        bundle = self.bundle
        splits = ", ".join(f"{name} {len(split)}" for name, split in bundle.splits.items())
        # Under a plain `uvicorn serve:app` nobody configured our logger, and uvicorn has its own.
        log = logger if logger.hasHandlers() else logging.getLogger("uvicorn.error")
        isolation = self.engine.isolation
        apart = "" if isolation is None else f" (isolation of envs: {isolation})"
        log.info("serving bundle %s%s: %s", bundle.name, apart, splits or "no tasks")
        if bundle.left_out:
            names = sorted({problem.task or str(problem.path) for problem in bundle.left_out})
            shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
            logger.warning("left out %d tasks: %s", len(names), shown)
            for problem in bundle.left_out[:50]:
                logger.warning("  %s", problem)

    @property
    def hurried(self) -> bool:
        """The end is wanted now, not at the deadline."""
        return self._hurry.is_set()

    def hurry(self) -> None:
        """End now, not at the deadline."""
        self._hurry.set()

    def begin_stop(self) -> None:
        """Refuse what is new and give up what runs."""
        self.stopping = True
        for play in self._plays:
            play.interrupt("the server is stopping")

    async def stop(self) -> None:
        """End all sessions within the deadline, then the engine. Idempotent."""
        if self.stopped:
            return
        self.stopped = True
        self.begin_stop()
        self.leases.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.shutdown_deadline
        for play in list(self._plays):
            if not play.attached:  # those end when their connections go
                self.spawn(self.finish(play, "the server is stopping"))
        self.sessions.clear()
        while self._tasks and loop.time() < end and not self.hurried:
            await asyncio.wait(set(self._tasks), timeout=min(0.2, end - loop.time()))
        for task in self._tasks:
            logger.error("a teardown did not end within %g s", self.shutdown_deadline)
            task.cancel()
        await self._close_engine(1.0 if self.hurried else max(1.0, end - loop.time()))
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=1.0)
        if self.started:
            failed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.failures.items()))
            total = self.failures.total()
            logger.info("episodes: %d scored, %d failed%s", self.scored, total, failed and f" ({failed})")
        self.started = False

    async def _close_engine(self, deadline: float) -> None:
        """Providers may wait long for a service that does not answer; who is in a hurry leaves it to the reaper."""
        loop = asyncio.get_running_loop()
        closing = loop.create_task(self.engine.close(deadline=deadline), name="close the engine")
        hurry = loop.create_task(self._hurry.wait(), name="a second signal")
        try:
            await asyncio.wait({closing, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not closing.done():
                await asyncio.wait({closing}, timeout=HURRIED_S)
        finally:
            hurry.cancel()
        if closing.done():
            await closing
        else:
            closing.cancel()
            logger.error("sandboxes may be left running; `agentenv sandbox reap`, or the next server, ends them")

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` to its end, whatever happens to the one who asked; the server waits for it when it stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("internal error in the background", exc_info=error)

    # -- sessions ------------------------------------------------------------------------------------------------

    def open(self, *, wait: float | None = None, first: Reset | None = None) -> Play:
        """A new session. Without ``wait`` it takes a slot now.

        Raises:
            Refused: no room, or the server is not up.
        """
        if self.stopping or not self.started:
            words = "the server is stopping" if self.stopping else "the server has not started"
            raise Refused(words, "SESSION_ERROR", retryable=True)
        if wait is None and not self.slots.take():
            self.note_full()
            raise Full(self.slots.active, self.slots.limit)
        play = Play(self, slot=wait is None, wait=wait, first=first)
        self._plays.add(play)
        return play

    def note_full(self) -> None:
        """Say once that somebody found no room."""
        if not self._told_full:
            self._told_full = True
            logger.warning(
                "the server is full: %d of %d sessions active, %d wait in line; a larger max_concurrent_envs "
                "(--max-concurrent-envs) takes more (said once)",
                self.slots.active,
                self.slots.limit,
                self.slots.waiting,
            )

    async def finish(self, play: Play, why: str, worker: asyncio.Task[None] | None = None) -> None:
        """End a session and give its slot back."""
        if worker is not None:
            await asyncio.wait([worker], timeout=30.0)
        try:
            await play.close(why)
        finally:
            self._plays.discard(play)

    @asynccontextmanager
    async def once(self) -> AsyncGenerator[Play, None]:
        """A session for one use; it is gone afterwards.

        Raises:
            Refused: as `open`.
        """
        play = self.open()
        try:
            yield play
        finally:
            await asyncio.shield(self.spawn(self.finish(play, "done")))

    def create(self, first: Reset | None = None) -> Play:
        """A session that lives on its own, until it is closed or its lease runs out.

        Raises:
            Refused: as `open`.
        """
        play = self.open(first=first)
        self.sessions[play.id] = play
        self.leases.renew(play.id)
        return play

    def attach(self, session_id: str) -> Play:
        """Tie a session to a WebSocket; its lease rests meanwhile.

        Raises:
            Refused: there is no such session, or another WebSocket holds it.
        """
        play = self.sessions.get(session_id)
        if play is None:
            raise Refused(f"Unknown session_id: {session_id[:100]}", "SESSION_ERROR")
        if play.attached:
            raise Refused(f"Session {session_id} already has an attached WebSocket", "SESSION_ERROR")
        play.attached = True
        self.leases.drop(session_id)
        return play

    async def detach(self, play: Play, worker: asyncio.Task[None] | None = None) -> None:
        """The WebSocket went: the session lives on under its lease, or ends if it was closed meanwhile."""
        if worker is not None:
            await asyncio.wait([worker], timeout=30.0)
        play.attached = False
        if play.ending or self.stopping:
            self.sessions.pop(play.id, None)
            await self.finish(play, "closed")
        else:
            self._rest(play)

    @contextlib.contextmanager
    def used(self, play: Play) -> Generator[None, None, None]:
        """A request runs on a session that was created over HTTP; its lease rests, however long that takes."""
        play.users += 1
        self.leases.drop(play.id)
        try:
            yield
        finally:
            play.users -= 1
            self._rest(play)

    def _rest(self, play: Play) -> None:
        """Start a session's lease if nobody holds it any more."""
        if play.id in self.sessions and not play.attached and not play.users:
            self.leases.renew(play.id)

    def _lease_expired(self, session_id: str) -> None:
        play = self.sessions.pop(session_id, None)
        if play is not None:
            logger.warning("session %s was left alone for %g s; it is closed", session_id, self.leases.seconds)
            self.spawn(self.finish(play, "its lease ran out"))

    # -- episodes ------------------------------------------------------------------------------------------------

    def begin(self, request: Reset) -> tuple[Episode, dict[str, Any]]:
        """The episode that a reset asks for, not started yet, and what replies say of its task.

        Raises:
            Refused: no such task, a wrong seed, or a live episode has the id.
        """
        split, index = request.split, request.index
        if split is None or index is None:
            split, index = "all", 0
        if request.episode_id is not None and request.episode_id in self.live:
            raise Refused(f"episode_id {request.episode_id!r} belongs to an episode that is still open")
        try:
            task = self.bundle.task(split, index, seed=request.seed)
            episode = self.engine.episode(task, episode_id=request.episode_id)
        except IndexError:
            count = len(self.bundle.splits[split]) if split in self.bundle.splits else 0
            raise Refused(f"split {split!r} has {count} tasks: there is no index {index}") from None
        except (AgentEnvError, KeyError) as error:
            raise Refused(str(error)) from None
        self.live.add(episode.id)
        return episode, {"id": task.id, "name": task.name, "split": task.split, "index": task.index}

    async def close_episode(self, episode: Episode, why: str) -> None:
        """Tear an episode down; trouble is logged, for nobody could mend it."""
        try:
            await episode.close(why)
        except Exception:
            logger.exception("the teardown of episode %s failed", episode.id)

    async def common_tools(self, play: Play) -> Toolset:
        """The tools of a bundle whose tasks all have the same ones; a throw-away episode lists them once.

        Raises:
            Refused: the tasks differ, or the episode could not begin.
        """
        if self._common is None:
            bundle = self.bundle
            if len({template.toolset for template in bundle.templates.values()}) != 1:
                raise Refused("the tasks of this bundle have different tools: reset to one of them first")
            async with contextlib.AsyncExitStack() as stack:
                if not play.slot:
                    await stack.enter_async_context(self.once())
                try:
                    task = next(iter(bundle.entries("all", 0, 1)), None)
                    if task is None:
                        raise Refused("the bundle serves no task")
                    episode = self.engine.episode(bundle.task("all", 0))
                except (BundleError, UsageError) as error:
                    raise Refused(str(error)) from None
                try:
                    await episode.start()
                    self._common = toolset(episode.tools)
                except AgentEnvError as error:
                    raise Refused(f"the tools could not be listed: {error}") from None
                finally:
                    await asyncio.shield(self.spawn(self.close_episode(episode, "listed")))
        return self._common

    def count_failure(self, kind: str, message: str, episode_id: str, task: dict[str, Any]) -> None:
        """Note a failure: a line in the log, and the count of its kind."""
        self.failures[kind] += 1
        line = " ".join(message[:2000].split())
        if kind == "aborted":  # somebody gave it up: nothing is wrong
            logger.info("episode %s of task %s ended unscored: %.500s", episode_id, task["id"], line)
            return
        logger.warning("episode %s of task %s failed: %s: %.500s", episode_id, task["id"], kind, line)
