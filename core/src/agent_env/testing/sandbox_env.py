"""The env that sandbox checks deploy: a server of the standard library, and writing its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

DOCKERFILE: Final = """FROM python:3.11-slim
WORKDIR /app
COPY server.py ./
ENV PYTHONUNBUFFERED=1
CMD ["python", "server.py"]
"""

SERVER: Final = '''"""Answers HTTP and WebSocket on AGENTENV_UDS, else on MCP_PORT; CHECK_MODE makes it misbehave."""
import asyncio, base64, hashlib, json, os, sys, time
from urllib.parse import parse_qs, urlsplit

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def handle(reader, writer):
    try:
        while True:
            line = await reader.readline()
            if not line:
                break
            method, target, _ = line.decode().split(" ", 2)
            headers = {}
            while (line := (await reader.readline()).decode().strip()):
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if headers.get("upgrade", "").lower() == "websocket":
                await websocket(reader, writer, headers)
                break
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            data = answer(urlsplit(target), body)
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n")
            writer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(data) + data)
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                break
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def answer(url, body):
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    if url.path == "/echo":
        return body
    if url.path == "/env":
        return json.dumps(os.environ.get(query["name"])).encode()
    if url.path == "/say":
        print(query["text"], flush=True)
    if url.path == "/exit":
        print("leaving now", flush=True)
        os._exit(int(query["code"]))
    return json.dumps({"path": url.path, "argv": sys.argv[1:]}).encode()


async def websocket(reader, writer, headers):
    accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + MAGIC).digest())
    writer.write(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n")
    writer.write(b"Sec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
    while True:
        first, second = await reader.readexactly(2)
        size = second & 127
        if size == 126:
            size = int.from_bytes(await reader.readexactly(2), "big")
        elif size == 127:
            size = int.from_bytes(await reader.readexactly(8), "big")
        mask = await reader.readexactly(4)
        data = bytes(byte ^ mask[place % 4] for place, byte in enumerate(await reader.readexactly(size)))
        length = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
        writer.write(bytes([first]) + length + data)
        await writer.drain()
        if first & 15 == 8:
            return


async def serve():
    path = os.environ.get("AGENTENV_UDS")
    if path and os.environ.get("CHECK_MODE") != "tcp":
        server = await asyncio.start_unix_server(handle, path)
    else:
        server = await asyncio.start_server(handle, "0.0.0.0", int(os.environ["MCP_PORT"]))
    async with server:
        await server.serve_forever()


mode = os.environ.get("CHECK_MODE")
print("starting in mode", mode, flush=True)
if mode == "crash":
    print("broken on purpose", file=sys.stderr, flush=True)
    sys.exit(3)
if mode == "silent":
    time.sleep(3600)
asyncio.run(serve())
'''


def write_env(folder: Path, *, dockerfile: str = DOCKERFILE) -> Path:
    """Write the env into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    return folder
