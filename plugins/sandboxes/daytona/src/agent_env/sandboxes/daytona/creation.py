"""Creating a sandbox: all or nothing, and safe to cancel at any moment."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import (
    BuildFailed,
    RateLimited,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxUnavailable,
)
from agent_env.plugin.building.plan import need_command
from agent_env.plugin.sandboxing import lease
from agent_env.plugin.sandboxing.patience import Patience
from agent_env.sandboxes.daytona import ending, failures, labels, plan, readiness
from agent_env.sandboxes.daytona.sdk import NAME
from agent_env.sandboxes.daytona.size import size_of

if TYPE_CHECKING:
    import httpx
    from agent_env.plugin.sandbox import Endpoint, SandboxSpec
    from agent_env.plugin.sandboxing.pacing import Pace
    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.images import Images, Ready
    from agent_env.sandboxes.daytona.labels import Found
    from agent_env.sandboxes.daytona.options import DaytonaOptions
    from agent_env.sandboxes.daytona.sdk import Remote

log = logging.getLogger("agent_env.sandboxes.daytona")

_LOOK_S = 1.0
_LOST_WAITS = (0.5, 2.0, 5.0)


@dataclass(slots=True)
class Made:
    """A sandbox that runs, and how to reach it."""

    remote: Remote
    found: Found
    endpoint: Endpoint | None


@dataclass(slots=True)
class _Ticket:
    """What an attempt has begun, so that it can be ended whatever is known of it."""

    create_id: str
    task: asyncio.Task[Remote] | None = None
    error: BaseException | None = None


class Creator:
    """Makes sandboxes for one provider."""

    def __init__(
        self, api: Api, images: Images, options: DaytonaOptions, tasks: Tasks, pace: Pace, http: httpx.AsyncClient
    ) -> None:
        self._api = api
        self._images = images
        self._options = options
        self._tasks = tasks
        self._pace = pace
        self._http = http

    async def create(self, spec: SandboxSpec, *, deadline: float) -> Made:
        """A sandbox whose server answers, where it has one.

        Args:
            spec: what to create.
            deadline: time of the event loop at which the caller gives up; nothing waits beyond it.

        Raises:
            SandboxError: the subclass says what happened.
        """
        plan.refuse(spec)
        size = size_of(spec, self._options)
        patience = Patience(self._pace, spec.label, deadline)
        rebuilt = False
        while True:
            ready = await self._images.get(spec.image, size)
            about = plan.about(spec, ready, self._options)
            await patience.before()
            try:
                return await self._attempt(spec, ready, about, deadline)
            except SandboxNotFound as error:
                if rebuilt or ready.snapshot is None:
                    raise SandboxGone(f"{spec.label}: {error}", provider=NAME) from error
                rebuilt = True  # its snapshot was removed since it was built
                self._images.forget(spec.image, size)
            except (RateLimited, SandboxUnavailable) as error:
                await patience.after(error)

    async def _attempt(self, spec: SandboxSpec, ready: Ready, about: labels.About, deadline: float) -> Made:
        ticket = _Ticket(lease.new_id())
        try:
            async with self._pace.slot():
                remote = await self._request(ticket, spec, ready, about, deadline)
            found = labels.read(remote)
            if found is None:
                raise SandboxUnavailable(f"{spec.label}: Daytona lost the labels of its sandbox", provider=NAME)
            endpoint: Endpoint | None = None
            if about.serves:
                endpoint = await self._serve(remote, spec, ready, about)
        except asyncio.CancelledError:
            # Raised at once; what was begun is ended by a task that the provider waits for.
            self._tasks.start(self._abandon(ticket), f"daytona abandon {ticket.create_id}")
            raise
        except BaseException:
            await asyncio.shield(self._tasks.start(self._abandon(ticket), f"daytona abandon {ticket.create_id}"))
            raise
        return Made(remote, found, endpoint)

    async def _request(
        self, ticket: _Ticket, spec: SandboxSpec, ready: Ready, about: labels.About, deadline: float
    ) -> Remote:
        now = time.time()
        params = plan.params(
            self._api.sdk,
            spec,
            ready,
            about,
            self._options,
            create_id=ticket.create_id,
            marks=labels.LABELS.write(
                ticket.create_id, spec.label, spec.labels, about, created_at=now, expires_at=now + spec.ttl_s
            ),
        )
        seconds = max(1.0, deadline - asyncio.get_running_loop().time())

        async def request() -> Remote:
            return await self._api.client.create(params, timeout=seconds)

        ticket.task = self._tasks.start(request(), f"daytona create {ticket.create_id}")
        try:
            # It runs to its end even when the caller is cancelled: only then is known what it made.
            return await asyncio.shield(ticket.task)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            ticket.error = error
            text = str(error)
            if "build_failed" in text.lower():
                raise BuildFailed(f"{spec.label}: {ready.title} could not be built: {text}", provider=NAME) from error
            raise failures.to_error(error, f"{spec.label}: create") from error

    async def _serve(self, remote: Remote, spec: SandboxSpec, ready: Ready, about: labels.About) -> Endpoint:
        argv = spec.command
        if argv is None and about.ours and ready.start is not None:
            argv = need_command(ready.start, spec.label, provider=NAME)
        try:
            return await readiness.start(self._api, remote, self._http, spec, about, argv)
        except SandboxNotFound as error:
            raise SandboxGone(
                f"{spec.label}: its sandbox was ended from outside before the server answered",
                provider=NAME,
                sandbox_id=remote.id,
            ) from error
        except SandboxUnavailable as error:
            if await ending.find(self._api, remote.id) is None:
                raise SandboxGone(
                    f"{spec.label}: its sandbox was ended from outside before the server answered",
                    provider=NAME,
                    sandbox_id=remote.id,
                ) from error
            raise

    async def _abandon(self, ticket: _Ticket) -> None:
        """End what an attempt made, or may have made, or is still making."""
        name, task = labels.name_of(ticket.create_id), ticket.task
        if task is None:
            return
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK_S)
            if not task.done() and await self._ended(name):
                task.cancel()
                await asyncio.wait([task])
        error = ticket.error or (None if task.cancelled() else task.exception())
        if error is None:
            await self._ended(name)
            return
        if failures.lost(error) and not await self._ended(name):
            # Its answer was lost, and with it whether and when it is made; nobody has to wait for that.
            self._tasks.start(self._look_again(name), f"daytona look again {ticket.create_id}")

    async def _look_again(self, name: str) -> None:
        for delay in _LOST_WAITS:
            await asyncio.sleep(delay)
            if await self._ended(name):
                return

    async def _ended(self, name: str) -> bool:
        try:
            return await ending.end(self._api, name)
        except SandboxError as error:
            log.warning("sandbox %s, which nobody wants, could not be ended; its time to live ends it: %s", name, error)
            return False
