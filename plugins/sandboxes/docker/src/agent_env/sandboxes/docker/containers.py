"""Requests about one container, and ending it for certain."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import SandboxTimeout
from agent_env.sandboxes.docker import labels
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.sandboxes.docker.engine import Engine
    from agent_env.sandboxes.docker.labels import Found

_FRAME = struct.Struct(">BxxxL")
_REMOVE_DEADLINE = 60.0
_REMOVE_POLL = 0.1
_REMOVE_POLL_MOST = 2.0
_SIGKILL = 137


async def inspect(engine: Engine, container: str) -> dict[str, Any] | None:
    """What the engine says of a container; `None` when there is none."""
    try:
        return cast("dict[str, Any]", await engine.get(f"containers/{container}/json"))
    except EngineError as error:
        if error.status == 404:
            return None
        raise to_error(error, f"sandbox {container}", container) from error


async def listing(engine: Engine, filters: str) -> list[Found]:
    """Our containers that a filter finds, running or not."""
    try:
        answer = await engine.get("containers/json", {"all": "1", "filters": filters})
    except EngineError as error:
        raise to_error(error, "list of sandboxes") from error
    entries = (labels.listed(entry) for entry in cast("list[Mapping[str, Any]]", answer or []))
    return [entry for entry in entries if entry is not None]


async def remove(engine: Engine, container: str, deadline: float = _REMOVE_DEADLINE) -> bool:
    """End a container and everything in it; False when it was already gone. Repeats what the engine refuses for now.

    Raises:
        SandboxTimeout: it is still there after ``deadline`` seconds; SandboxUnavailable: the engine is gone.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline
    delay = _REMOVE_POLL
    there = False
    while True:
        try:
            await engine.call("DELETE", f"containers/{container}", params={"force": "1", "v": "1"})
            return True
        except EngineError as error:
            if error.status == 404:
                return there
            there = True
            if loop.time() > end:
                if error.status == 0:
                    raise to_error(error, f"sandbox {container}: ending it", container) from error
                raise SandboxTimeout(
                    f"sandbox {container} did not end within {deadline:g} s: {error}",
                    provider=NAME,
                    sandbox_id=container,
                ) from error
        await asyncio.sleep(delay)
        delay = min(delay * 1.5, _REMOVE_POLL_MOST)


async def logs(engine: Engine, container: str, tail: int) -> str:
    """The last ``tail`` bytes that a container wrote, ``""`` when it is gone."""
    raw = b""
    try:
        # Every line is at least two bytes long, so that this many lines are always enough.
        query = {"stdout": "1", "stderr": "1", "tail": str(max(tail // 2, 16))}
        async for piece in engine.read(f"containers/{container}/logs", query):
            raw += piece
    except EngineError as error:
        if error.status in {404, 409}:
            return ""
        raise to_error(error, f"sandbox {container}: its log", container) from error
    text = bytearray()
    place = 0
    while place + _FRAME.size <= len(raw):
        size = _FRAME.unpack_from(raw, place)[1]
        text += raw[place + _FRAME.size : place + _FRAME.size + size]
        place += _FRAME.size + size
    return bytes(text[-tail:] if tail > 0 else b"").decode(errors="replace")


def exit_code(found: Mapping[str, Any] | None) -> int | None:
    """Exit code of an inspected container, `None` while it runs or when it is gone."""
    if found is None:
        return None
    state: Mapping[str, Any] = found.get("State") or {}
    if labels.status_of(str(state.get("Status"))) != "exited":
        return None
    code = state.get("ExitCode")
    return code if isinstance(code, int) else None


def killed(found: Mapping[str, Any] | None) -> str:
    """Why the engine killed an inspected container, ``""`` when it did not."""
    if found is None or exit_code(found) != _SIGKILL or not labels.part(found, "State").get("OOMKilled"):
        return ""
    memory = int(labels.part(found, "HostConfig").get("Memory") or 0) >> 20
    return (
        f"killed: it used more than its {memory} MiB of memory" if memory else "killed: the engine has no memory left"
    )
