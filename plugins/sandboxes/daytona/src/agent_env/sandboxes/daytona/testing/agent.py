"""Runs inside a stand-in machine, as its first process: starts commands and leads to ports. Standard library only."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

LIMIT = 1 << 20


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        request = json.loads(await reader.readline())
        if request["op"] == "exec":
            writer.write(json.dumps(await execute(request)).encode() + b"\n")
            await writer.drain()
        elif request["op"] == "connect":
            await connect(request["port"], reader, writer)
    except (OSError, ValueError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def execute(request: dict[str, Any]) -> dict[str, Any]:
    """As Daytona: one output for both, no input; what a command leaves behind with its output open is waited for."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        request["command"],
        cwd=request.get("cwd") or request["workdir"],
        env=request["env"],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(request["timeout"]):
            out, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        return {"timeout": True}
    code = process.returncode or 0
    return {"code": code if code >= 0 else 128 - code, "result": out.decode(errors="replace")}


async def connect(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.write(b"no\n")
        await writer.drain()
        return
    writer.write(b"ok\n")
    tasks = [asyncio.ensure_future(pump(reader, inner_writer)), asyncio.ensure_future(pump(inner_reader, writer))]
    await asyncio.wait(tasks)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def main() -> None:
    server = await asyncio.start_unix_server(handle, sys.argv[1], limit=LIMIT)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
