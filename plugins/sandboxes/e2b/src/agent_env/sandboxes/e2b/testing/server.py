"""Serving the stand-in, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.sandboxes.e2b.testing import envd, traffic
from agent_env.sandboxes.e2b.testing.control import Control
from agent_env.sandboxes.e2b.testing.faults import Faults
from agent_env.sandboxes.e2b.testing.machine import bubblewrap_program
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from agent_env.sandboxes.e2b.testing.state import Box

KEY = "e2b_" + "0" * 40
_ENVD_PORT = "49983"
_GONE = {"sandboxId": "", "code": 502, "message": "The sandbox was not found"}


class _NotFound(Exception):
    pass


class StandIn:
    """A server that can be talked to with the real SDK, at `url`, with the key `key`.

    Args:
        quota: most sandboxes at once.
        idempotent: honours idempotency keys, as the cloud does and self-hosted servers do not.

    Raises:
        UsageError: bubblewrap does not work here.
    """

    def __init__(self, *, quota: int = 100, idempotent: bool = True) -> None:
        bubblewrap_program()
        self.key = KEY
        self.url = ""
        self.faults = Faults()
        self._folder = ScratchFolder("ae-e2b")
        self.control = Control(self._folder.path, {KEY}, self.faults, quota=quota, idempotent=idempotent)
        self._commands = envd.commands_app(self._find)
        self._app = Starlette(routes=self.control.routes())
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="e2b stand-in")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None

    # -- what a test looks at -----------------------------------------------------------------------------------------

    @property
    def boxes(self) -> dict[str, Box]:
        """The sandboxes that run, by id."""
        return dict(self.control.boxes)

    def end(self, box_id: str) -> bool:
        """End a sandbox, as the service does when its time is over."""
        return bool(self._do(self.control.end(box_id)))

    def rotate_tokens(self) -> None:
        """Let all tokens of sandboxes expire."""
        for box in self.boxes.values():
            box.envd_token, box.traffic_token = f"{box.envd_token}x", f"{box.traffic_token}x"

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._do(self.control.close())
            self._server.should_exit = True
        self._thread.join(30)
        self._folder.remove()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            raise RuntimeError("the stand-in does not run")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        config = uvicorn.Config(self, log_level="critical", lifespan="off", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = self.control.builds.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._ready.set()
            await self._server.serve([listener])

    # -- requests -----------------------------------------------------------------------------------------------------

    def _find(self, box_id: str | None) -> Box:
        box = self.control.boxes.get(box_id or "")
        if box is None:
            raise _NotFound
        return box

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application: with the header of a sandbox a request is for that, else for the API."""
        headers = {name.decode().lower(): value.decode() for name, value in scope.get("headers", [])}
        box_id, port = headers.get("e2b-sandbox-id"), headers.get("e2b-sandbox-port", _ENVD_PORT)
        if box_id is None:
            await self._app(scope, receive, send)
            return
        try:
            box = self._find(box_id)
        except _NotFound:
            if scope["type"] == "http":
                await JSONResponse(_GONE, 502)(scope, receive, send)
            else:
                await WebSocket(scope, receive, send).close(1011)
            return
        if scope["type"] == "websocket":
            await traffic.websocket(WebSocket(scope, receive, send), box, int(port))
        elif port != _ENVD_PORT:
            await (await traffic.http(Request(scope, receive), box, int(port)))(scope, receive, send)
        else:
            await self._envd(scope, receive, send, box, headers)

    async def _envd(self, scope: Any, receive: Any, send: Any, box: Box, headers: dict[str, str]) -> None:
        fault = self.faults.take("envd")
        answer: Response | None = None
        refuses = headers.get("x-access-token") != box.envd_token
        if refuses or (fault is not None and fault.kind == "status"):
            # A client whose upload is cut short by an answer does not always get to see it.
            await Request(scope, receive).body()
        if refuses:
            answer = JSONResponse({"code": 401, "message": "unauthorized access, please provide a valid token"}, 401)
        elif fault is not None and fault.kind == "status":
            answer = JSONResponse({"code": fault.status, "message": fault.message}, fault.status)
        elif scope["path"] == "/health":
            answer = Response(status_code=204)
        elif scope["path"] == "/files":
            answer = await envd.files(Request(scope, receive), box)
        if answer is not None:
            await answer(scope, receive, send)
        else:
            if fault is not None and fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            await self._commands(scope, receive, send)
