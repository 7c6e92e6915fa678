"""The stand-in's API for templates."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.e2b.testing.answers import refused
from agent_env.sandboxes.e2b.testing.builds import Template, build
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent_env.sandboxes.e2b.testing.faults import Faults
    from starlette.requests import Request

    Handler = Callable[[Request], Awaitable[Response]]


class Builds:
    """Templates and their builds.

    Args:
        folder: where templates are kept.
        faults: what goes wrong.
    """

    def __init__(self, folder: Path, faults: Faults) -> None:
        self.faults = faults
        self.url = ""
        self.templates: dict[str, Template] = {}
        self.uploads: dict[str, bytes] = {}
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self, guarded: Callable[[str, Handler], Handler]) -> list[Route]:
        """All routes; ``guarded`` checks the key."""
        return [
            Route("/v3/templates", guarded("build", self.new_template), methods=["POST"]),
            Route("/templates/aliases/{alias}", guarded("alias", self.alias), methods=["GET"]),
            Route("/templates/{id}", guarded("template", self.template), methods=["GET"]),
            Route("/templates/{id}/files/{hash}", guarded("upload", self.upload_link), methods=["GET"]),
            Route("/uploads/{hash}", self.upload, methods=["PUT"]),
            Route("/v2/templates/{id}/builds/{build}", guarded("trigger", self.trigger), methods=["POST"]),
            Route("/templates/{id}/builds/{build}/status", guarded("status", self.status), methods=["GET"]),
        ]

    async def close(self) -> None:
        """Wait for builds."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def find(self, name: str) -> Template | None:
        """A template by id or name."""
        return next((one for one in self.templates.values() if name in {one.id, one.name}), None)

    async def new_template(self, request: Request) -> Response:
        """POST /v3/templates."""
        body = await request.json()
        template = self.find(body["name"])
        if template is None:
            number = secrets.token_hex(8)
            root = self._folder / number
            template = Template(number, body["name"], root, body.get("cpuCount") or 2, body.get("memoryMB") or 512)
            self.templates[number] = template
        template.build_id, template.status, template.logs = secrets.token_hex(8), "waiting", []
        answer = {
            "templateID": template.id,
            "buildID": template.build_id,
            "public": False,
            "names": [template.name],
            "tags": [],
            "aliases": [template.name],
        }
        return JSONResponse(answer, 202)

    async def alias(self, request: Request) -> Response:
        """GET /templates/aliases/ALIAS."""
        template = self.find(request.path_params["alias"])
        if template is None:
            return refused(404, "template not found")
        return JSONResponse({"templateID": template.id, "public": False})

    async def template(self, request: Request) -> Response:
        """GET /templates/ID."""
        one = self.find(request.path_params["id"])
        if one is None:
            return refused(404, "template not found")
        moment = "2026-01-01T00:00:00Z"
        built = {
            "buildID": f"00000000-0000-4000-8000-{one.build_id[:12]}",
            "status": one.status,
            "createdAt": moment,
            "updatedAt": moment,
            "cpuCount": one.cpu,
            "memoryMB": one.memory_mb,
        }
        answer = {
            "templateID": one.id,
            "public": False,
            "aliases": [one.name],
            "names": [one.name],
            "createdAt": moment,
            "updatedAt": moment,
            "lastSpawnedAt": None,
            "spawnCount": 0,
            "builds": [built],
        }
        return JSONResponse(answer)

    async def upload_link(self, request: Request) -> Response:
        """GET /templates/ID/files/HASH."""
        if self.faults.no_uploads:
            return Response(status_code=404)
        digest = request.path_params["hash"]
        present = digest in self.uploads
        return JSONResponse({"present": present, "url": f"{self.url}/uploads/{digest}"}, 201)

    async def upload(self, request: Request) -> Response:
        """PUT to the link."""
        self.uploads[request.path_params["hash"]] = await request.body()
        return Response()

    async def trigger(self, request: Request) -> Response:
        """POST /v2/templates/ID/builds/BUILD."""
        one = self.find(request.path_params["id"])
        if one is None:
            return refused(404, "template not found")
        body = await request.json()
        one.status = "building"
        task = asyncio.create_task(asyncio.to_thread(build, one, body, self.uploads))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Response(status_code=202)

    async def status(self, request: Request) -> Response:
        """GET /templates/ID/builds/BUILD/status."""
        one = self.find(request.path_params["id"])
        if one is None:
            return refused(404, "template not found")
        start = int(request.query_params.get("logsOffset") or 0)
        status = one.status
        entries = [
            {"timestamp": "2026-01-01T00:00:00Z", "message": line, "level": "info"}
            for line in one.logs[start : start + 100]
        ]
        answer: dict[str, Any] = {
            "logs": [],
            "logEntries": entries,
            "templateID": one.id,
            "buildID": one.build_id,
            "status": status,
        }
        if one.reason is not None:
            answer["reason"] = {"message": one.reason}
        return JSONResponse(answer)
