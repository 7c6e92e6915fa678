"""Starting a sandbox's server and waiting until it answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
from agent_env.errors import SandboxError, SandboxNotFound, SandboxNotReady
from agent_env.plugin.sandbox import Endpoint
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.daytona import execs, files, scripts
from agent_env.sandboxes.daytona.sdk import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.labels import About
    from agent_env.sandboxes.daytona.sdk import Remote

SCRIPT = f"{scripts.SERVER}/run"
_SLICE_S = 10.0
_PROBE_S = 10.0
_FIRST_PAUSE = 0.1
_MOST_PAUSE = 1.0
_LOG_TAIL = 4096


async def preview(api: Api, remote: Remote, port: int) -> Endpoint:
    """How to reach a port now. The token is good for as long as the sandbox is not restarted."""
    link = await api.call(lambda: remote.get_preview_link(port), f"sandbox {remote.id}: link", sandbox_id=remote.id)
    headers = {"X-Daytona-Preview-Token": link.token, "X-Daytona-Skip-Preview-Warning": "true"}
    return Endpoint(url=link.url.rstrip("/"), headers=headers)


async def start(
    api: Api, remote: Remote, http: httpx.AsyncClient, spec: SandboxSpec, about: About, argv: Sequence[str] | None
) -> Endpoint:
    """Start the server and wait until its health path answers.

    Args:
        api: the client.
        remote: the sandbox.
        http: asks the health path.
        spec: what was asked for.
        about: its port and folder.
        argv: what to start; `None` when the snapshot's entrypoint did.

    Raises:
        SandboxNotReady: it ended, or did not answer in time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + spec.startup_timeout
    if argv is not None:
        nonce = lease.new_id()
        script = scripts.server(nonce, argv, cwd=about.workdir, port=about.port)
        await files.put(api, remote, {SCRIPT: script.encode()})
        await _listening(api, remote, spec, about, nonce, end)
    endpoint = await preview(api, remote, about.port)
    await _answering(api, remote, http, spec, endpoint, end, watch=argv is not None)
    return endpoint


async def _listening(api: Api, remote: Remote, spec: SandboxSpec, about: About, nonce: str, end: float) -> None:
    """Wait in the sandbox until something listens on the port: one request instead of many."""
    loop = asyncio.get_running_loop()
    word, tail = "start", ""
    while True:
        seconds = max(0.0, min(_SLICE_S, end - loop.time()))
        answer = await execs.shell(api, remote, f"{SCRIPT} {word} {scripts.rounds(seconds)}", seconds=seconds)
        place = answer.find(f"{nonce} ")
        head, _, tail = answer[max(place, 0) :].partition("\n")
        said = head.split()[1:]
        if said[:1] == ["exited"]:
            raise _ended(remote, spec, int(said[1]) if len(said) > 1 and said[1].isdigit() else None, tail)
        if said[:1] != ["waiting"]:
            return  # it listens, or the sandbox does not tell
        if loop.time() >= end:
            why = f"nothing listens on port {about.port}, which MCP_PORT names"
            raise _late(remote, spec, why, tail)
        word = "wait"


async def _answering(
    api: Api,
    remote: Remote,
    http: httpx.AsyncClient,
    spec: SandboxSpec,
    endpoint: Endpoint,
    end: float,
    *,
    watch: bool,
) -> None:
    loop = asyncio.get_running_loop()
    pause, why = _FIRST_PAUSE, "it does not answer"
    while True:
        try:
            answer = await http.get(endpoint.url + spec.health, headers=dict(endpoint.headers), timeout=_PROBE_S)
            if answer.status_code < 500:
                return
            why = f"it answers {spec.health} with HTTP {answer.status_code}"
        except httpx.HTTPError as error:
            why = f"it does not answer {spec.health} ({type(error).__name__})"
        if watch:
            code, tail = await state(api, remote), ""
            if code is not None:
                raise _ended(remote, spec, code, await log(api, remote, _LOG_TAIL))
        if loop.time() >= end:
            tail = await log(api, remote, _LOG_TAIL) if watch else ""
            raise _late(remote, spec, why, tail)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _MOST_PAUSE)


async def state(api: Api, remote: Remote) -> int | None:
    """Exit code of the server, `None` while it runs."""
    answer = await execs.shell(api, remote, f"{SCRIPT} state")
    words = answer.split()
    place = words.index("exited") if "exited" in words else -1
    return int(words[place + 1]) if 0 <= place < len(words) - 1 and words[place + 1].isdigit() else None


async def log(api: Api, remote: Remote, tail: int) -> str:
    """The end of what the server wrote; empty when there is nothing to be read."""
    try:
        answer = await api.call(
            lambda: remote.process.exec(f"tail -c {max(tail, 0)} {scripts.SERVER}/log", timeout=15),
            f"sandbox {remote.id}: log",
            timeout=20,
            sandbox_id=remote.id,
        )
    except SandboxNotFound:
        return ""
    return answer.result if answer.exit_code in {0, None} else ""


def _ended(remote: Remote, spec: SandboxSpec, code: int | None, tail: str) -> SandboxError:
    how = f" with exit code {code}" if code is not None else ""
    return SandboxNotReady(
        f"{spec.label}: the server ended{how} before it answered; its output: {tail.strip() or '(none)'}",
        exit_code=code,
        log_tail=tail,
        retryable=False,
        provider=NAME,
        sandbox_id=remote.id,
    )


def _late(remote: Remote, spec: SandboxSpec, why: str, tail: str) -> SandboxError:
    return SandboxNotReady(
        f"{spec.label}: the server is not ready after {spec.startup_timeout:g} s: {why}; "
        f"its output: {tail.strip() or '(none)'}",
        log_tail=tail,
        provider=NAME,
        sandbox_id=remote.id,
    )
