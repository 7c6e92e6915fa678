"""The stand-in's API for sandboxes."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from agent_env.sandboxes.e2b.testing.answers import Dropped, refused
from agent_env.sandboxes.e2b.testing.machine import Machine
from agent_env.sandboxes.e2b.testing.state import Box
from agent_env.sandboxes.e2b.testing.templates import Builds
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent_env.sandboxes.e2b.testing.builds import Template
    from agent_env.sandboxes.e2b.testing.faults import Fault, Faults
    from starlette.requests import Request

    Handler = Callable[[Request], Awaitable[Response]]


class Control:
    """Sandboxes, and whose requests are heard.

    Args:
        folder: where templates and sandboxes are kept; its path is short, because sockets stand in it.
        keys: keys that are accepted.
        faults: what goes wrong.
        quota: sandboxes at once.
        idempotent: honours idempotency keys.

    Attributes:
        requests: method and path of all requests.
        asked_at: when each create came, by the monotonic clock.
    """

    def __init__(self, folder: Path, keys: set[str], faults: Faults, *, quota: int, idempotent: bool) -> None:
        self.faults = faults
        self.boxes: dict[str, Box] = {}
        self.builds = Builds(folder, faults)
        self.requests: list[tuple[str, str]] = []
        self.asked_at: list[float] = []
        self.created = 0
        self._folder = folder
        self._keys = keys
        self._quota = quota
        self._idempotent = idempotent
        self._under_way: dict[str, asyncio.Task[Box | Response]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def templates(self) -> dict[str, Template]:
        """The templates, by id."""
        return self.builds.templates

    def routes(self) -> list[Route]:
        """All routes."""
        return [
            Route("/v2/sandboxes", self._guarded("create", self.create), methods=["POST"]),
            Route("/sandboxes", self._guarded("create", self.create), methods=["POST"]),
            Route("/v2/sandboxes", self._guarded("list", self.listing), methods=["GET"]),
            Route("/sandboxes/{id}", self._guarded("info", self.info), methods=["GET"]),
            Route("/sandboxes/{id}", self._guarded("kill", self.kill), methods=["DELETE"]),
            Route("/sandboxes/{id}/timeout", self._guarded("timeout", self.timeout), methods=["POST"]),
            Route("/v2/sandboxes/{id}/connect", self._guarded("connect", self.connect), methods=["POST"]),
            Route("/sandboxes/{id}/connect", self._guarded("connect", self.connect), methods=["POST"]),
            *self.builds.routes(self._guarded),
        ]

    def _guarded(self, route: str, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            self.requests.append((request.method, request.url.path))
            if route == "create":
                self.asked_at.append(time.monotonic())
            if request.headers.get("x-api-key") not in self._keys:
                return refused(401, "Invalid API key")
            if self.faults.too_old and request.method == "POST" and request.url.path.startswith("/v2/sandboxes"):
                return Response(status_code=405)
            fault = self.faults.take(route)
            return await self._with(fault, handler, request) if fault else await handler(request)

        return guarded

    @staticmethod
    async def _with(fault: Fault, handler: Handler, request: Request) -> Response:
        if fault.kind == "status":
            headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after is not None else None
            return refused(fault.status, fault.message, headers)
        if fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
            return await handler(request)
        done = await handler(request)
        if fault.kind == "lost":
            return Dropped()
        await asyncio.sleep(fault.seconds)
        return done

    def _keep(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End everything."""
        await self.builds.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for box_id in list(self.boxes):
            await self.end(box_id)

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """POST /v2/sandboxes."""
        body = await request.json()
        key = request.headers.get("idempotency-key") if self._idempotent else None
        if key is not None:
            known = next((box for box in self.boxes.values() if box.key == key), None)
            if known is not None:
                return JSONResponse(known.created(traffic=not self.faults.no_traffic_token), 201)
        work = self._under_way.get(key) if key is not None else None
        if work is None:
            # As with the service: a client that hangs up stops nothing.
            work = self._keep(self._create(body, key))
            if key is not None:
                self._under_way[key] = work
                work.add_done_callback(lambda _: self._under_way.pop(key, None))
        made = await asyncio.shield(work)
        if isinstance(made, Response):
            return made
        return JSONResponse(made.created(traffic=not self.faults.no_traffic_token), 201)

    async def _create(self, body: dict[str, Any], key: str | None) -> Box | Response:
        template = self.builds.find(body["templateID"])
        if template is None:
            return refused(404, f"template '{body['templateID']}' not found")
        if template.status != "ready":
            return refused(400, f"template '{body['templateID']}' has no finished build")
        if len(self.boxes) >= self._quota:
            return refused(429, f"you have reached the maximum number of concurrent sandboxes ({self._quota})")
        self.created += 1
        envs = dict(body.get("envVars") or {})
        internet = body.get("allow_internet_access", True) is not False
        machine = await Machine.start(self._folder, template.root, envs, internet=internet)
        seconds = float(body.get("timeout") or 300)
        network: dict[str, Any] = body.get("network") or {}
        box = Box(
            id=f"i{secrets.token_hex(10)}",
            template=template,
            machine=machine,
            metadata=dict(body.get("metadata") or {}),
            envs=envs,
            private=network.get("allowPublicTraffic") is False,
            internet=internet,
            key=key,
            end_at=time.time() + seconds,
        )
        self.boxes[box.id] = box
        self._set_timer(box, seconds)
        return box

    def _set_timer(self, box: Box, seconds: float) -> None:
        if box.timer is not None:
            box.timer.cancel()
        box.end_at = time.time() + seconds
        box.timer = asyncio.get_running_loop().call_later(seconds, lambda: self._keep(self.end(box.id)))

    async def end(self, box_id: str) -> bool:
        """End a sandbox."""
        box = self.boxes.pop(box_id, None)
        if box is None:
            return False
        if box.timer is not None:
            box.timer.cancel()
        await box.machine.stop()
        return True

    async def listing(self, request: Request) -> Response:
        """GET /v2/sandboxes, by pages."""
        query = request.query_params
        # The SDK encodes metadata twice.
        wanted = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""))}
        found = [
            box.detail()
            for box in sorted(self.boxes.values(), key=lambda box: box.id)
            if all(box.metadata.get(name) == value for name, value in wanted.items())
        ]
        start, limit = int(query.get("nextToken") or 0), int(query.get("limit") or 100)
        headers = {"x-next-token": str(start + limit)} if start + limit < len(found) else {}
        return JSONResponse(found[start : start + limit], headers=headers)

    async def info(self, request: Request) -> Response:
        """GET /sandboxes/ID."""
        box = self.boxes.get(request.path_params["id"])
        return JSONResponse(box.detail()) if box is not None else refused(404, "sandbox not found")

    async def kill(self, request: Request) -> Response:
        """DELETE /sandboxes/ID."""
        ended = await self._keep(self.end(request.path_params["id"]))
        return Response(status_code=204) if ended else refused(404, "sandbox not found")

    async def timeout(self, request: Request) -> Response:
        """POST /sandboxes/ID/timeout."""
        box = self.boxes.get(request.path_params["id"])
        if box is None:
            return refused(404, "sandbox not found")
        self._set_timer(box, float((await request.json())["timeout"]))
        return Response(status_code=204)

    async def connect(self, request: Request) -> Response:
        """POST /v2/sandboxes/ID/connect."""
        box = self.boxes.get(request.path_params["id"])
        if box is None:
            return refused(404, "sandbox not found")
        seconds = float((json.loads(await request.body() or b"{}")).get("timeout") or 0)
        if time.time() + seconds > box.end_at:
            self._set_timer(box, seconds)
        return JSONResponse(box.created(traffic=not self.faults.no_traffic_token))
