"""Snapshots: by name, broken, idle, and what is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.sandbox import BuildContext, HostImage, ImageRef, SandboxSpec, TemplateRef
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.testing.sandbox_env import DOCKERFILE, write_env
from agent_env.testing.sandbox_http import get

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.daytona.testing.standin import StandIn


def test_a_snapshot_is_built_once_and_found_by_other_servers(
    standin: StandIn, options: dict[str, Any], tmp_path: Path
) -> None:
    image = BuildContext(write_env(tmp_path / "once", dockerfile=f"{DOCKERFILE}# once\n"))

    async def work() -> None:
        before = standin.builds
        for _ in range(2):
            async with DaytonaProvider(**options) as provider:
                await provider.prepare(image)
                async with await provider.create(SandboxSpec(image=image, label="once")) as box:
                    assert b"argv" in await get(await box.endpoint(), "/")
        assert standin.builds - before == 1

    asyncio.run(work())


def test_what_failed_before_is_built_again(standin: StandIn, options: dict[str, Any], tmp_path: Path) -> None:
    image = BuildContext(write_env(tmp_path / "again", dockerfile=f"{DOCKERFILE}# again\n"))

    async def work() -> None:
        async with DaytonaProvider(**options) as provider:
            standin.faults.build_fails = "the builder had no disk"
            with pytest.raises(BuildFailed, match="the builder had no disk"):
                await provider.prepare(image)
            standin.faults.build_fails = ""
            await provider.prepare(image)

    asyncio.run(work())


def test_a_snapshot_by_name_that_slept(standin: StandIn, options: dict[str, Any], tmp_path: Path) -> None:
    image = BuildContext(write_env(tmp_path / "named", dockerfile=f"{DOCKERFILE}# named\n"))

    async def work() -> None:
        async with DaytonaProvider(**options) as provider:
            await provider.prepare(image)
            (snapshot,) = [one for one in standin.snapshots.values() if one.name.startswith("agentenv-named-")]
            snapshot.state = "inactive"
            spec = SandboxSpec(image=TemplateRef(snapshot.name), command=("python", "/app/server.py"), label="named")
            async with await provider.create(spec) as box:
                assert b"argv" in await get(await box.endpoint(), "/")
            with pytest.raises(SandboxUnsupported, match="nothing else says how to start"):
                await provider.create(SandboxSpec(image=TemplateRef(snapshot.name), label="mute"))

    asyncio.run(work())


def test_what_is_no_image_here_is_refused_in_words(standin: StandIn, options: dict[str, Any], tmp_path: Path) -> None:
    adding = write_env(tmp_path / "adding", dockerfile=DOCKERFILE.replace("COPY", "ADD"))
    refused = {
        "not this machine": SandboxSpec(image=HostImage(), serves=False),
        "no snapshot 'nowhere'": SandboxSpec(image=TemplateRef("nowhere"), serves=False),
        "does not run the command of image": SandboxSpec(image=ImageRef("python:3.11-slim")),
        "write COPY": SandboxSpec(image=BuildContext(adding)),
    }

    async def work() -> None:
        async with DaytonaProvider(**options) as provider:
            for words, spec in refused.items():
                with pytest.raises(SandboxUnsupported, match=words):
                    await provider.create(spec)

    asyncio.run(work())
    assert standin.living == []
