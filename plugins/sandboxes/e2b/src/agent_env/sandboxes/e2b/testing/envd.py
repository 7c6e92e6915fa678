"""The half of the stand-in that a real sandbox holds: commands and files."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.e2b.testing.machine import ENV
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from protobuf import Oneof
from starlette.responses import JSONResponse, Response, StreamingResponse

from e2b.envd.client_shared import ENVD_JSON_CODEC
from e2b.envd.process import process_connect, process_pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agent_env.sandboxes.e2b.testing.state import Box
    from starlette.requests import Request

_PIECE = 1 << 20


class Commands(process_connect.Process):
    """The service for commands.

    Args:
        find: the sandbox of a request, by its headers.
    """

    def __init__(self, find: Callable[[str | None], Box]) -> None:
        self._find = find

    def _box(self, ctx: Any) -> Box:
        return self._find(ctx.request_headers.get("e2b-sandbox-id"))

    async def start(self, request: Any, ctx: Any) -> AsyncIterator[Any]:
        box = self._box(ctx)
        config = request.process
        env = {**ENV, **box.envs, **dict(config.envs)}
        cwd = config.cwd if config.has_field("cwd") else ""
        async for event in box.machine.run(config.cmd, list(config.args), env=env, cwd=cwd or box.workdir):
            yield process_pb.StartResponse(event=_event(event))

    async def send_signal(self, request: Any, ctx: Any) -> Any:
        box = self._box(ctx)
        if not await box.machine.kill(int(request.process.selector.value)):
            raise ConnectError(Code.NOT_FOUND, "process not found")
        return process_pb.SendSignalResponse()


def _event(event: dict[str, Any]) -> Any:
    kinds: Any = process_pb.ProcessEvent
    if "pid" in event:
        return kinds(event=Oneof("start", kinds.StartEvent(pid=event["pid"])))
    if "out" in event or "err" in event:
        name = "stdout" if "out" in event else "stderr"
        data = base64.b64decode(event.get("out") or event.get("err") or "")
        return kinds(event=Oneof("data", kinds.DataEvent(output=Oneof(name, data))))
    if "error" in event:
        raise ConnectError(Code.INVALID_ARGUMENT, str(event["error"]))
    code = int(event["end"])
    return kinds(event=Oneof("end", kinds.EndEvent(exit_code=code, exited=code >= 0, status=f"exit status {code}")))


def commands_app(find: Callable[[str | None], Box]) -> Any:
    """The ASGI application for commands."""
    return process_connect.ProcessASGIApplication(Commands(find), codecs=[ENVD_JSON_CODEC])


async def files(request: Request, box: Box) -> Response:
    """GET and POST of ``/files``."""
    path = request.query_params.get("path", "")
    if request.method == "GET":
        return await _read(box, path)
    body = await request.body()
    kind = request.headers.get("content-type", "")
    written = [(path, body)] if "octet-stream" in kind else _parts(body, kind, path)
    answer: list[dict[str, str]] = []
    for name, data in written:
        target = box.machine.path(name)
        if target.is_dir():
            return JSONResponse({"code": 400, "message": f"path '{name}' is a directory"}, 400)
        await asyncio.to_thread(_write, target, data)
        answer.append({"path": name, "name": target.name, "type": "file"})
    return JSONResponse(answer)


def _write(target: Any, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


async def _read(box: Box, path: str) -> Response:
    source = box.machine.path(path)
    if not source.exists():
        return JSONResponse({"code": 404, "message": f"path '{path}' does not exist"}, 404)
    if source.is_dir():
        return JSONResponse({"code": 400, "message": f"path '{path}' is a directory"}, 400)

    async def pieces() -> AsyncIterator[bytes]:
        with source.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece

    return StreamingResponse(pieces(), media_type="application/octet-stream")


def _parts(body: bytes, kind: str, path: str) -> list[tuple[str, bytes]]:
    """The files of a multipart body."""
    match = re.search(r'boundary="?([^";]+)', kind)
    if match is None:
        return []
    found: list[tuple[str, bytes]] = []
    for part in body.split(b"--" + match[1].encode())[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        name = re.search(rb'filename="([^"]*)"', head)
        found.append((path or (name[1].decode() if name else ""), data.removesuffix(b"\r\n")))
    return found
