"""The real services, when there is a key for them: one sandbox each, ended at once."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.sandbox import SandboxSpec
from agent_env.sandboxes.e2b.provider import AenvProvider, E2BProvider, E2BProviderBase

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import BuildContext, Endpoint

LIVE_URL = os.environ.get("AENV_URL")


def ask(endpoint: Endpoint) -> bytes:
    request = urllib.request.Request(f"{endpoint.url}/hello", headers=dict(endpoint.headers))  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:
        data: bytes = answer.read()
    return data


async def smoke(provider: E2BProviderBase, env: BuildContext) -> None:
    async with provider:
        await provider.prepare(env)
        async with await provider.create(SandboxSpec(image=env, label="smoke", ttl_s=300.0)) as box:
            assert b"/hello" in await asyncio.to_thread(ask, await box.endpoint())
            done = await box.exec(["python", "-c", "import sys; print(sys.stdin.read()); sys.exit(4)"], stdin=b"words")
            assert (done.exit_code, done.stdout) == (4, "words\n")
            await box.write("/data/x", b"content")
            assert await box.read("/data/x") == b"content"
            assert box.id in [record.id async for record in provider.list()]
        assert await box.status() == "gone"


@pytest.mark.timeout(900)
@pytest.mark.skipif(not os.environ.get("E2B_API_KEY"), reason="E2B_API_KEY is not set: no live account to test with")
def test_e2b(env: BuildContext) -> None:
    asyncio.run(smoke(E2BProvider(), env))


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LIVE_URL, reason="AENV_URL is not set: no live server to test with")
def test_aenv(env: BuildContext) -> None:
    asyncio.run(smoke(AenvProvider(url=LIVE_URL), env))
