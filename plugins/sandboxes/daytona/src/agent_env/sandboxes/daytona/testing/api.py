"""The stand-in's control API: sandboxes and snapshots."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, cast

from agent_env.sandboxes.daytona.testing.building import BuildError, Built, build
from agent_env.sandboxes.daytona.testing.errors import problem
from agent_env.sandboxes.daytona.testing.machine import Machine
from agent_env.sandboxes.daytona.testing.preview import Preview
from agent_env.sandboxes.daytona.testing.records import Box, Snapshot
from aiohttp import web

if TYPE_CHECKING:
    from agent_env.sandboxes.daytona.testing.standin import StandIn

_BUSY = ("creating", "starting")


class ControlApi:
    """Its routes."""

    def __init__(self, standin: StandIn) -> None:
        self._standin = standin

    def add_routes(self, app: web.Application) -> None:
        """Its routes."""
        route = app.router
        route.add_post("/api/sandbox", self._create)
        route.add_get("/api/sandbox", self._list)
        route.add_get("/api/sandbox/{id}", self._get)
        route.add_delete("/api/sandbox/{id}", self._delete)
        route.add_post("/api/sandbox/{id}/ttl/{minutes}", self._ttl)
        route.add_put("/api/sandbox/{id}/labels", self._labels)
        route.add_get("/api/sandbox/{id}/ports/{port}/preview-url", self._preview)
        route.add_post("/api/snapshots", self._create_snapshot)
        route.add_get("/api/snapshots/{id}", self._get_snapshot)
        route.add_delete("/api/snapshots/{id}", self._delete_snapshot)
        route.add_post("/api/snapshots/{id}/activate", self._activate_snapshot)
        route.add_get("/api/snapshots/{id}/build-logs-url", self._log_url)
        route.add_get("/logs/{id}", self._log)
        route.add_get("/api/object-storage/push-access", self._push_access)

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    async def _create(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        faults = self._standin.faults
        self._standin.asked_at.append(time.monotonic())
        if faults.hit("rate_limit"):
            headers = {"Retry-After": faults.retry_after} if faults.retry_after is not None else {}
            raise problem(429, "Rate limit exceeded", headers=headers)
        if faults.quota:
            raise problem(403, "Total CPU limit exceeded. Maximum allowed: 10. Upgrade your organization's tier.")
        name = asked.get("name") or ""
        if name and self._standin.box(name) is not None:
            raise problem(409, f"Sandbox with name {name} already exists")
        built = await self._source(asked)
        env = {**built.env, **_object(asked.get("env"))}
        # A machine with a server has a network of its own, because all of them listen on the same port.
        outward = not asked.get("networkBlockAll") and "MCP_PORT" not in env
        machine = Machine(self._standin.new_folder(), built.root, env, built.workdir, network=outward)
        box = Box(asked, name, machine, f"{self._standin.url}/toolbox", labels=dict(asked.get("labels") or {}))
        box.name = box.name or box.id
        if asked.get("ttlMinutes"):
            box.destroy_at = time.time() + asked["ttlMinutes"] * self._standin.minute_s
        self._standin.boxes[box.id] = box
        self._standin.created += 1
        # A create goes on when the client hangs up.
        started = self._standin.spawn(self._start(box))
        await asyncio.shield(started)
        if faults.slow_create:
            await asyncio.sleep(faults.slow_create)
        if faults.hit("lost_reply") and request.transport is not None:
            request.transport.abort()
        return web.json_response(box.wire())

    async def _source(self, asked: dict[str, Any]) -> Built:
        if "snapshot" in asked:
            snapshot = self._standin.snapshot(asked["snapshot"])
            if snapshot is None:
                raise problem(404, f"Snapshot {asked['snapshot']} not found")
            if snapshot.state != "active" or snapshot.built is None:
                raise problem(400, f"Snapshot {asked['snapshot']} is {snapshot.state}")
            return snapshot.built
        dockerfile = str(_object(asked.get("buildInfo")).get("dockerfileContent", ""))
        try:
            return await build(dockerfile, [], self._standin.new_folder(), [])
        except BuildError as error:
            raise problem(400, str(error)) from error

    async def _start(self, box: Box) -> None:
        faults = self._standin.faults
        await box.machine.start()
        if faults.late_start:
            self._standin.spawn(self._late(box, faults.late_start))
        elif box.state == "creating":
            box.state = "started"
        if box.id not in self._standin.boxes:
            await box.machine.stop()

    async def _late(self, box: Box, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if box.state == "creating":
            box.state = "started"

    def _box(self, request: web.Request) -> Box:
        box = self._standin.box(request.match_info["id"])
        if box is None:
            raise problem(404, f"Sandbox with ID or name {request.match_info['id']} not found")
        return box

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._box(request).wire())

    async def _list(self, request: web.Request) -> web.Response:
        wanted: dict[str, str] = json.loads(request.query.get("labels") or "{}")
        boxes = [box for box in self._standin.boxes.values() if wanted.items() <= box.labels.items()]
        first, count = int(request.query.get("cursor") or 0), int(request.query.get("limit") or 100)
        page = boxes[first : first + count]
        more = first + count < len(boxes)
        body = {"items": [box.wire() for box in page], "nextCursor": str(first + count) if more else None}
        return web.json_response(body)

    async def _delete(self, request: web.Request) -> web.Response:
        box = self._box(request)
        if box.state in _BUSY or self._standin.faults.hit("conflicts"):
            raise problem(409, "Sandbox state change in progress")
        if box.state != "destroying":
            box.state = "destroying"
            self._standin.spawn(self._standin.destroy(box))
        return web.json_response(box.wire())

    async def _ttl(self, request: web.Request) -> web.Response:
        box, minutes = self._box(request), int(request.match_info["minutes"])
        box.destroy_at = time.time() + minutes * self._standin.minute_s if minutes else None
        self._standin.renewals += 1
        return web.json_response(box.wire())

    async def _labels(self, request: web.Request) -> web.Response:
        box = self._box(request)
        box.labels = (await request.json())["labels"]
        return web.json_response({"labels": box.labels})

    async def _preview(self, request: web.Request) -> web.Response:
        box, port = self._box(request), int(request.match_info["port"])
        preview = box.previews.get(port)
        if preview is None:
            preview = box.previews[port] = Preview(box.machine, port)
            await preview.open()
        return web.json_response({"sandboxId": box.id, "url": preview.url, "token": preview.token})

    # -- snapshots ----------------------------------------------------------------------------------------------------

    async def _create_snapshot(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        if self._standin.snapshot(asked["name"]) is not None:
            raise problem(409, f"Snapshot with name {asked['name']} already exists")
        snapshot = Snapshot(asked["name"], asked)
        self._standin.snapshots[snapshot.id] = snapshot
        self._standin.builds += 1
        self._standin.spawn(self._build(snapshot))
        return web.json_response(snapshot.wire())

    async def _build(self, snapshot: Snapshot) -> None:
        info = _object(snapshot.request.get("buildInfo"))
        try:
            if self._standin.faults.build_fails:
                raise BuildError(self._standin.faults.build_fails)
            digests = cast("list[str]", info.get("contextHashes") or [])
            contexts = [self._standin.storage.context(digest) for digest in digests]
            dockerfile = info.get("dockerfileContent") or f"FROM {snapshot.request.get('imageName')}\n"
            snapshot.built = await build(dockerfile, contexts, self._standin.new_folder(), snapshot.log)
            snapshot.state = "active"
        except (BuildError, KeyError, OSError) as error:
            snapshot.log.append(str(error))
            snapshot.state, snapshot.reason = "build_failed", f"build failed: {error}"

    def _snapshot(self, request: web.Request) -> Snapshot:
        snapshot = self._standin.snapshot(request.match_info["id"])
        if snapshot is None:
            raise problem(404, f"Snapshot {request.match_info['id']} not found")
        return snapshot

    async def _get_snapshot(self, request: web.Request) -> web.Response:
        return web.json_response(self._snapshot(request).wire())

    async def _delete_snapshot(self, request: web.Request) -> web.Response:
        snapshot = self._snapshot(request)
        self._standin.snapshots.pop(snapshot.id, None)
        return web.json_response({})

    async def _activate_snapshot(self, request: web.Request) -> web.Response:
        snapshot = self._snapshot(request)
        snapshot.state = "active"
        return web.json_response(snapshot.wire())

    async def _log_url(self, request: web.Request) -> web.Response:
        return web.json_response({"url": f"{self._standin.url}/logs/{self._snapshot(request).id}"})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        snapshot = self._snapshot(request)
        answer = web.StreamResponse()
        await answer.prepare(request)
        told = 0
        while True:
            done = snapshot.state != "building"
            for line in snapshot.log[told:]:
                await answer.write(f"{line}\n".encode())
                told += 1
            if done:
                break
            await asyncio.sleep(0.05)
        await answer.write_eof()
        return answer

    async def _push_access(self, _: web.Request) -> web.Response:
        access = {"accessKey": "a", "secret": "s", "sessionToken": "t", "region": "us-east-1"}
        place = {"storageUrl": f"{self._standin.url}/s3", "bucket": "bucket", "organizationId": "standin"}
        return web.json_response({**access, **place})


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
