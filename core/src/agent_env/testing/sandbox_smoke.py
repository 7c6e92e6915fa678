"""A short walk through a provider, for live services where each sandbox costs: one sandbox, ended whatever happens."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.testing.sandbox_env import write_env
from agent_env.testing.sandbox_http import echo_websocket, post

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandbox import SandboxProvider

_LABEL = "agentenv-smoke"
_TTL_S = 600.0


async def smoke(provider: SandboxProvider, folder: Path, *, timeout: float = 600.0) -> None:
    """Build, create, reach by HTTP and WebSocket, run a command, write and read a file, find by label, end.

    Args:
        provider: a fresh one; it is closed at the end.
        folder: where the env is written.
        timeout: seconds for the create.

    Raises:
        AssertionError: something is not as it has to be.
    """
    labels = {_LABEL: secrets.token_hex(6)}
    spec = SandboxSpec(BuildContext(write_env(folder / "smoke")), label="smoke", labels=labels, ttl_s=_TTL_S)
    async with provider:
        await provider.prepare(spec.image)
        async with await provider.create(spec, timeout=timeout) as box:
            endpoint = await box.endpoint()
            assert await post(endpoint, "/echo", b"hello") == b"hello", "HTTP"
            assert await echo_websocket(endpoint, ["hello"]) == ["hello"], "WebSocket"
            done = await box.exec(["python", "-c", "import sys; print(sys.stdin.read()); sys.exit(4)"], stdin=b"words")
            assert (done.exit_code, done.stdout) == (4, "words\n"), done
            await box.write("/data/x", b"\x00\xff")
            assert await box.read("/data/x") == b"\x00\xff", "files"
            assert await box.status() == "running"
            assert [record.id async for record in provider.list(labels)] == [box.id], "found by its label"
        assert await box.status() == "gone"
        left = [record.id async for record in provider.list(labels) if record.status != "gone"]
        assert left == [], f"left behind: {left}"
