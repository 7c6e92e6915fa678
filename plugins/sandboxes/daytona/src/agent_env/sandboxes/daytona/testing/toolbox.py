"""The stand-in's toolbox: commands and files of a machine."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent_env.sandboxes.daytona.testing.errors import problem
from agent_env.sandboxes.daytona.testing.records import moment
from aiohttp import BodyPartReader, web

if TYPE_CHECKING:
    from agent_env.sandboxes.daytona.testing.records import Box
    from agent_env.sandboxes.daytona.testing.standin import StandIn

_DEFAULT_TIMEOUT = 10


class Toolbox:
    """Its routes."""

    def __init__(self, standin: StandIn) -> None:
        self._standin = standin

    def add_routes(self, app: web.Application) -> None:
        """Its routes."""
        at = "/toolbox/{id}"
        app.router.add_post(f"{at}/process/execute", self._execute)
        app.router.add_post(f"{at}/files/bulk-upload", self._upload)
        app.router.add_post(f"{at}/files/bulk-download", self._download)
        app.router.add_get(f"{at}/files/info", self._info)

    def _box(self, request: web.Request) -> Box:
        box = self._standin.box(request.match_info["id"])
        if box is None or box.state != "started":
            raise problem(404, f"Sandbox {request.match_info['id']} not found or not running")
        box.idle_from = time.time()
        return box

    async def _execute(self, request: web.Request) -> web.Response:
        box = self._box(request)
        asked = await request.json()
        timeout = asked.get("timeout") or _DEFAULT_TIMEOUT
        work = asyncio.ensure_future(
            box.machine.run(asked["command"], cwd=asked.get("cwd"), env=asked.get("envs") or {}, timeout=timeout)
        )
        box.work.add(work)
        work.add_done_callback(box.work.discard)
        try:
            await asyncio.wait([work])
            error = None if work.cancelled() else work.exception()
            if work.cancelled() or error is not None:
                raise problem(404, f"Sandbox {box.id} is gone: {error!r}")
            done = work.result()
        finally:
            work.cancel()
        if done.get("timeout"):
            raise problem(408, "command execution timeout", code="PROCESS_EXECUTION_TIMEOUT", source="DAYTONA_DAEMON")
        return web.json_response({"exitCode": done["code"], "result": done["result"]})

    async def _upload(self, request: web.Request) -> web.Response:
        box = self._box(request)
        place = ""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            data = bytes(await part.read(decode=False))
            if (part.name or "").endswith(".path"):
                place = data.decode()
                continue
            path = box.machine.path(box.machine.absolute(place))
            try:
                await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
                await asyncio.to_thread(path.write_bytes, data)
            except OSError as error:
                return web.json_response({"errors": [str(error)]}, status=400)
        return web.json_response({})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        box = self._box(request)
        boundary = "standinboundary"
        answer = web.StreamResponse(headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})
        await answer.prepare(request)
        for place in (await request.json())["paths"]:
            path = box.machine.path(box.machine.absolute(place))
            label = (
                f'filename="{place}"' if place.isascii() and '"' not in place else f"filename*=utf-8''{quote(place)}"
            )
            try:
                data = await asyncio.to_thread(path.read_bytes)
                kind, disposition = "application/octet-stream", f'form-data; name="file"; {label}'
            except OSError as error:
                body = {"statusCode": 404, "message": str(error), "code": "FILE_NOT_FOUND", "source": "DAYTONA_DAEMON"}
                data, kind = json.dumps(body).encode(), "application/json"
                disposition = f'form-data; name="error"; {label}'
            head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: {kind}\r\n"
            await answer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data + b"\r\n")
        await answer.write(f"--{boundary}--\r\n".encode())
        await answer.write_eof()
        return answer

    async def _info(self, request: web.Request) -> web.Response:
        box = self._box(request)
        path = box.machine.path(box.machine.absolute(request.query["path"]))
        try:
            facts = await asyncio.to_thread(path.stat)
        except OSError as error:
            raise problem(404, str(error), code="FILE_NOT_FOUND", source="DAYTONA_DAEMON") from error
        is_dir = await asyncio.to_thread(path.is_dir)
        return web.json_response(
            {
                "name": path.name,
                "isDir": is_dir,
                "size": facts.st_size,
                "modTime": moment(facts.st_mtime),
                "mode": f"{facts.st_mode:o}",
                "permissions": f"{facts.st_mode & 0o777:04o}",
                "owner": "daytona",
                "group": "daytona",
            }
        )
