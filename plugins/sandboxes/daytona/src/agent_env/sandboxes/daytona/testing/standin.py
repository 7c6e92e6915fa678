"""The stand-in service: a thread with a web server on loopback."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.sandboxes.daytona.testing.api import ControlApi
from agent_env.sandboxes.daytona.testing.errors import problem
from agent_env.sandboxes.daytona.testing.faults import Faults
from agent_env.sandboxes.daytona.testing.storage import Storage
from agent_env.sandboxes.daytona.testing.toolbox import Toolbox
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from agent_env.sandboxes.daytona.testing.records import Box, Snapshot

KEY = "dtn_standin"
_WATCH_S = 0.1


class StandIn:
    """Use it as ``with StandIn() as standin:``; point the SDK at `api_url` with the key `KEY`.

    Attributes:
        faults: what it does wrong.
        boxes: its sandboxes by id.
        snapshots: its snapshots by id.
        minute_s: seconds of a minute of a time to live or an idle time.
        created: sandboxes created so far.
        asked_at: when each create came, by the monotonic clock.
        builds: snapshots begun so far.
        renewals: times to live set so far.
        requests: requests so far.
    """

    def __init__(self) -> None:
        self.faults = Faults()
        self.storage = Storage()
        self.boxes: dict[str, Box] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.minute_s = 60.0
        self.created = self.builds = self.renewals = self.requests = 0
        self.asked_at: list[float] = []
        self._folder: ScratchFolder | None = None
        self._counter = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def api_url(self) -> str:
        """For the SDK."""
        return f"{self.url}/api"

    @property
    def unavailable_url(self) -> str:
        """For an SDK that shall be answered with 503 always."""
        return f"{self.url}/unavailable/api"

    def __enter__(self) -> Self:
        self._folder = ScratchFolder("ae-dts")
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="daytona stand-in")
        self._thread.start()
        if not self._ready.wait(20):
            raise RuntimeError("the stand-in did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(30)
        if self._folder is not None:
            self._folder.remove()

    @property
    def living(self) -> list[str]:
        """Ids of sandboxes that nobody has asked to end."""
        return [box.id for box in list(self.boxes.values()) if box.state != "destroying"]

    def reset(self) -> None:
        """No fault, and the real length of a minute."""
        self.faults.reset()
        self.minute_s = 60.0

    def expire_tokens(self) -> None:
        """Tokens of previews that were handed out are no good any more."""
        assert self._loop is not None
        for box in list(self.boxes.values()):
            for preview in box.previews.values():
                self._loop.call_soon_threadsafe(preview.expire)

    # -- for its own parts --------------------------------------------------------------------------------------------

    def new_folder(self) -> Path:
        """A folder that nobody has used; its path is short, because sockets stand in it."""
        assert self._folder is not None
        folder = self._folder.path / f"{next(self._counter):x}"
        folder.mkdir()
        return folder

    def box(self, id_or_name: str) -> Box | None:
        """A sandbox that is not destroyed."""
        found = self.boxes.get(id_or_name)
        return found or next((box for box in self.boxes.values() if box.name == id_or_name), None)

    def snapshot(self, id_or_name: str) -> Snapshot | None:
        """A snapshot."""
        found = self.snapshots.get(id_or_name)
        return found or next((one for one in self.snapshots.values() if one.name == id_or_name), None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on when its client hangs up."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def destroy(self, box: Box) -> None:
        """End a sandbox."""
        for work in list(box.work):
            work.cancel()
        for preview in box.previews.values():
            await preview.close()
        await box.machine.stop()
        self.boxes.pop(box.id, None)

    # -- the thread ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(middlewares=[self._middleware], client_max_size=1 << 30)
        ControlApi(self).add_routes(app)
        Toolbox(self).add_routes(app)
        self.storage.add_routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        watch = asyncio.ensure_future(self._watch())
        await self._stop.wait()
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await asyncio.gather(*(self.destroy(box) for box in list(self.boxes.values())))
        await runner.cleanup()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """End what has lived long enough, and what nobody used for long: a preview is no use."""
        while True:
            now = time.time()
            for box in list(self.boxes.values()):
                idle = float(box.request.get("autoStopInterval", 15) or 0) * self.minute_s
                over = box.destroy_at is not None and box.destroy_at <= now
                if box.state == "started" and (over or (idle and box.idle_from + idle <= now)):
                    box.state = "destroying"
                    self.spawn(self.destroy(box))
            await asyncio.sleep(_WATCH_S)

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests += 1
        if request.path.startswith("/unavailable/"):
            raise problem(503, "Service unavailable")
        if request.path.startswith(("/api/", "/toolbox/")):
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                raise problem(401, "Invalid credentials")
            if self.faults.hit("unavailable"):
                raise problem(503, "Service unavailable")
        return await handler(request)
