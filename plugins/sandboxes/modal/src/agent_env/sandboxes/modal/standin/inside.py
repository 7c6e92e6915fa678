"""Runs beside a sandbox's server, in its network: leads connections of a unix socket to the server's TCP port.

``python inside.py SOCKET PORT COMMAND...``; it ends as the command does. The standard library only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass


async def _main(path: str, port: int, command: list[str]) -> int:
    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        finally:
            back.close()
            writer.close()

    await asyncio.start_unix_server(lead, path)
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)  # noqa: T201
        return 127
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.terminate)
    code = await process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(asyncio.run(_main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
