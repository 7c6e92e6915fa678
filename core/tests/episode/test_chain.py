"""A chain of sandbox providers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.episode.chain import ChainProvider
from agent_env.errors import (
    BuildFailed,
    CreateFailed,
    QuotaExceeded,
    SandboxAuthFailed,
    SandboxError,
    SandboxNotFound,
    SandboxUnavailable,
)
from agent_env.plugin.sandbox import Capabilities, HostImage, ImageRef, SandboxProvider, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import CodeRequest, Image, Sandbox, SandboxRecord


class Fake(SandboxProvider):
    """Answers as it is told to; a sandbox is a string."""

    def __init__(self, name: str, *, error: Exception | None = None, isolation: Any = "vm") -> None:
        self.name = name
        self.capabilities = Capabilities(isolation=isolation)
        self.error = error
        self.start_error: Exception | None = None
        self.images: list[Image] = []
        self.closed = False

    async def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error

    async def close(self) -> None:
        self.closed = True

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        if self.error is not None:
            raise self.error

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        self.images.append(spec.image)
        if self.error is not None:
            raise self.error
        return cast("Sandbox", self.name)

    async def attach(self, sandbox_id: str) -> Sandbox:
        if not sandbox_id.startswith(self.name):
            raise SandboxNotFound("not here")
        return cast("Sandbox", self.name)

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        yield cast("SandboxRecord", f"{self.name}-1")

    async def destroy(self, sandbox_id: str) -> bool:
        return sandbox_id.startswith(self.name)

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        return [f"{self.name}-old"]

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        if self.error is not None:
            raise self.error
        return self.name


SPEC = SandboxSpec(image=ImageRef("box"))
CODE: Any = None


async def created(chain: ChainProvider) -> str:
    return cast("str", await chain.create(SPEC))


@pytest.mark.parametrize("error", [QuotaExceeded("quota used up"), SandboxUnavailable("down")])
def test_the_next_takes_over_and_the_first_rests(error: Exception) -> None:
    async def run() -> None:
        first, second = Fake("one", error=error), Fake("two")
        async with ChainProvider([first, second]) as chain:
            assert chain.name == "one,two"
            assert await created(chain) == "two"
            assert await created(chain) == "two"
            assert len(first.images) == 1
            assert await chain.run_code(SPEC.image, CODE) == "two"
        assert first.closed
        assert second.closed

    asyncio.run(run())


@pytest.mark.parametrize("error", [CreateFailed("bad image"), SandboxAuthFailed("bad key"), BuildFailed("bad file")])
def test_an_error_that_another_provider_would_not_mend_is_the_callers(error: Exception) -> None:
    async def run() -> None:
        second = Fake("two")
        async with ChainProvider([Fake("one", error=error), second]) as chain:
            with pytest.raises(type(error)):
                await created(chain)
        assert second.images == []

    asyncio.run(run())


def test_when_all_are_out_of_quota_the_last_error_is_told() -> None:
    async def run() -> None:
        chain = ChainProvider([Fake("one", error=QuotaExceeded("a")), Fake("two", error=QuotaExceeded("b"))])
        with pytest.raises(QuotaExceeded, match="b"):
            await created(chain)
        with pytest.raises(QuotaExceeded):
            await chain.run_code(SPEC.image, CODE)

    asyncio.run(run())


def test_a_provider_that_does_not_start_is_left_out() -> None:
    async def run() -> None:
        first = Fake("one")
        first.start_error = SandboxAuthFailed("no key")
        async with ChainProvider([first, Fake("two", isolation="shared")]) as chain:
            assert await created(chain) == "two"
            assert chain.capabilities.isolation == "shared", "what is said is what envs get"
        both = Fake("one"), Fake("two")
        for provider in both:
            provider.start_error = SandboxAuthFailed("no key")
        with pytest.raises(SandboxAuthFailed):
            await ChainProvider(both).start()

    asyncio.run(run())


def test_a_preparation_fails_only_when_it_fails_on_all() -> None:
    async def run() -> None:
        bad = SandboxError("no builder")
        await ChainProvider([Fake("one", error=bad), Fake("two")]).prepare(SPEC.image)
        with pytest.raises(SandboxError, match="no builder"):
            await ChainProvider([Fake("one", error=bad), Fake("two", error=bad)]).prepare(SPEC.image)

    asyncio.run(run())


def test_a_machine_is_what_each_provider_has_for_one() -> None:
    async def run() -> None:
        local, cloud = Fake("one", error=QuotaExceeded("full"), isolation="none"), Fake("two")
        await ChainProvider([local, cloud]).create(SandboxSpec(image=HostImage(), serves=False))
        assert local.images == [HostImage()]
        assert isinstance(cloud.images[0], ImageRef)

    asyncio.run(run())


def test_sandboxes_are_found_wherever_they_are() -> None:
    async def run() -> None:
        chain = ChainProvider([Fake("one"), Fake("two")])
        assert cast("str", await chain.attach("two-7")) == "two"
        with pytest.raises(SandboxNotFound, match="three-1"):
            await chain.attach("three-1")
        assert [str(record) async for record in chain.list()] == ["one-1", "two-1"]
        assert await chain.destroy("two-7")
        assert not await chain.destroy("three-7")
        assert await chain.reap() == ["one-old", "two-old"]

    asyncio.run(run())
