"""Runs inside a sandbox of the stand-in: starts commands, passes connections on. Standard library only.

One request a connection, a line of JSON; see `Agent.serve`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from typing import Any


def _line(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


class Agent:
    """The sandbox's side."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listeners: dict[int, asyncio.Server] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """``exec`` runs a command, ``kill`` sends SIGKILL, ``listen`` leads a unix socket to a TCP port."""
        try:
            request = json.loads(await reader.readline() or b"null")
            if request is None:
                return
            if request["op"] == "exec":
                await self._exec(request, writer)
            elif request["op"] == "kill":
                try:
                    os.kill(request["pid"], signal.SIGKILL)
                    _line(writer, {"ok": True})
                except ProcessLookupError:
                    _line(writer, {"ok": False})
            else:
                _line(writer, {"path": await self._listen(int(request["port"]))})
            await writer.drain()
        except (OSError, ValueError):
            pass
        finally:
            writer.close()

    async def _exec(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                request["cmd"],
                *request["args"],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=request["cwd"] or None,
                env=request["env"],
                start_new_session=True,
            )
        except OSError as error:
            _line(writer, {"error": str(error)})
            return
        _line(writer, {"pid": process.pid})

        async def pump(stream: asyncio.StreamReader | None, name: str) -> None:
            while stream is not None and (data := await stream.read(32768)):
                with contextlib.suppress(OSError):
                    _line(writer, {name: base64.b64encode(data).decode()})
                    await writer.drain()

        await asyncio.gather(pump(process.stdout, "out"), pump(process.stderr, "err"))
        _line(writer, {"end": await process.wait()})

    async def _listen(self, port: int) -> str:
        path = f"{self._folder}/{port}"
        if port not in self._listeners:

            async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    there, back = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    writer.close()
                    return
                try:
                    await asyncio.gather(_pump(reader, back), _pump(there, writer))
                finally:
                    back.close()
                    writer.close()

            self._listeners[port] = await asyncio.start_unix_server(lead, path)
        return path


async def main() -> None:
    """Serve until killed."""
    folder = sys.argv[1]
    agent = Agent(folder)
    server = await asyncio.start_unix_server(agent.serve, f"{folder}/agent", limit=64 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
