"""Code of a bundle: one container for each image, whose warm Python forks a child for every request."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import CodeError, SandboxError, SandboxGone, SandboxTimeout
from agent_env.plugin.sandboxing import codebox, reach
from agent_env.plugin.sandboxing.code import pack, read_answer, request_json
from agent_env.sandboxes.docker import reverse
from agent_env.sandboxes.docker.failures import NAME

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import CodeRequest, Endpoint, SandboxSpec
    from agent_env.sandboxes.docker.provider import DockerProvider
    from agent_env.sandboxes.docker.sandbox import DockerSandbox

_FUTURE = "from __future__ import annotations\n"
_PARTS = ("mux.py", "loopback.py", "codehost.py")
_ENV = {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
_GRACE_S = 5.0
_HEAD = re.compile(rb"HTTP/1\.[01] 200 .*?\r\n\r\n", re.DOTALL)
_LEADS = re.compile(rb"HTTP/1\.[01] 101 ")
_ERROR_ROOM = 1 << 16


@functools.cache
def host_code() -> str:
    """What runs in the container, as one text."""
    first, *rest = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _PARTS]
    return "".join([first, *(text.replace(_FUTURE, "", 1) for text in rest)])


class CodeBoxes(codebox.CodeBoxes["DockerSandbox"]):
    """Runs code beside envs, never in the sandbox of an episode."""

    def __init__(self, provider: DockerProvider) -> None:
        super().__init__(self._make, lambda box: box.closed, run=self._ask)
        self._provider = provider

    async def _ask(self, box: DockerSandbox, request: CodeRequest) -> Any:
        packed = await asyncio.to_thread(pack, request)
        # Without this machine's loopback in the container, URLs on it lead here through the connection to the code.
        led = [] if self._provider.shares_loopback else reverse.origins(reach.named(request.args))
        about = {"size": len(packed), "timeout": request.timeout, "max_output": request.max_output, "ways": led}
        body = json.dumps(about).encode() + b"\n" + packed + request_json(request, "@FOLDER@/code")
        try:
            async with asyncio.timeout(request.timeout + _GRACE_S):
                raw = await _post(await box.endpoint(), body, led, request.max_output + _ERROR_ROOM)
        except TimeoutError:
            answer: dict[str, Any] = {"timed_out": True}
            out = b""
        except OSError as error:
            raise SandboxGone(f"{request.file}: its container has ended: {error}", provider=NAME) from error
        else:
            head, _, out = raw.partition(b"\n")
            answer = cast("dict[str, Any]", json.loads(head))
        if answer.get("timed_out"):
            raise SandboxTimeout(
                f"{request.file}: {request.function}() ran longer than {request.timeout:g} s and was killed",
                provider=NAME,
                retryable=False,
            )
        if answer["exit"] != 0:
            tail = (answer["err"] or out.decode(errors="replace"))[-2000:]
            raise CodeError(f"{request.file}: {request.function}() ended with exit code {answer['exit']}: {tail}")
        if answer["truncated"]:
            raise CodeError(f"{request.file}: {request.function}() returned more than {request.max_output >> 20} MiB")
        return read_answer(out, request)

    async def _make(self, spec: SandboxSpec) -> DockerSandbox:
        served = replace(spec, serves=True, network=None, health="/", env=_ENV)
        for python in ("python3", "python"):
            try:
                return await self._provider.create_for_code(replace(served, command=(python, "-c", host_code())))
            except SandboxError as error:
                if python == "python" or "executable file not found" not in str(error):
                    raise
        raise AssertionError


async def _post(endpoint: Endpoint, body: bytes, led: list[str], most: int) -> bytes:
    """The answer's body; the connection is closed when the caller gives up, which ends the code.

    Args:
        endpoint: of the container.
        body: of the request.
        led: origins that lead here, through this very connection, while the code runs.
        most: bytes of the answer.
    """
    reader, writer = await asyncio.open_unix_connection(endpoint.uds, limit=1 << 20)
    try:
        writer.write(b"POST /run HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        if led:
            await _upgraded(reader)
            return await reverse.carry(reader, writer, led, most)
        data = bytearray()
        while piece := await reader.read(1 << 16):
            data += piece
            if len(data) > most:
                raise OSError("its answer is longer than it may be")
    finally:
        writer.transport.abort()
    head = _HEAD.match(data)
    if head is None:
        raise OSError("it hung up")
    return bytes(data[head.end() :])


async def _upgraded(reader: asyncio.StreamReader) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise OSError("it hung up") from error
    if not _LEADS.match(head):
        raise OSError(f"it answered {head[:200]!r}")
