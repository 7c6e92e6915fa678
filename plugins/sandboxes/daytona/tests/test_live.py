"""A smoke test of the real service; it costs a few cents."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.testing.sandbox_env import write_env
from agent_env.testing.sandbox_http import echo_websocket, post

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif("DAYTONA_API_KEY" not in os.environ, reason="DAYTONA_API_KEY is not set")
@pytest.mark.timeout(900)
def test_the_service_does_as_the_stand_in(tmp_path: Path) -> None:
    async def work() -> None:
        spec = SandboxSpec(image=BuildContext(write_env(tmp_path / "smoke")), label="smoke", ttl_s=600)
        async with DaytonaProvider() as provider:
            box = await provider.create(spec, timeout=600)
            endpoint = await box.endpoint()
            assert await post(endpoint, "/echo", b"hello") == b"hello"
            assert await echo_websocket(endpoint, ["hello"]) == ["hello"]
            done = await box.exec(["python", "-c", "import sys; print(sys.stdin.read())"], stdin=b"in")
            assert (done.exit_code, done.stdout) == (0, "in\n")
            await box.write("/data/x", b"\x00\xff")
            assert await box.read("/data/x") == b"\x00\xff"
            assert [record.id async for record in provider.list()] == [box.id]
            await box.close()
            assert await box.status() == "gone"

    asyncio.run(work())
