"""What the service does wrong, and what becomes of it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import (
    BuildFailed,
    QuotaExceeded,
    SandboxAuthFailed,
    SandboxNotReady,
    SandboxTimeout,
    SandboxUnavailable,
)
from agent_env.plugin.sandbox import SandboxSpec
from agent_env.sandboxes.modal.provider import ModalProvider
from agent_env.sandboxes.modal.standin import faults

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import BuildContext
    from agent_env.sandboxes.modal.standin.server import StandIn


def test_a_rate_limit_is_waited_out(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            modal.faults.refusals = [faults.rate_limit(), faults.rate_limit(0.2)]
            before = modal.state.creates
            async with await provider.create(SandboxSpec(env, serves=False)):
                # One of them by the provider, one by the SDK, which heeds the time that the service names.
                assert modal.state.creates - before == 3

    asyncio.run(work())


def test_a_quota_is_not_tried_again(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            modal.faults.refusals = [faults.quota()]
            before = modal.state.creates
            with pytest.raises(QuotaExceeded, match="concurrent sandboxes"):
                await provider.create(SandboxSpec(env, serves=False))
            assert modal.state.creates - before == 1

    asyncio.run(work())


def test_an_answer_that_was_lost_is_found_by_name(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            modal.faults.lost_replies = 1
            async with await provider.create(SandboxSpec(env)) as box:
                assert [one.id for one in modal.state.boxes.running()] == [box.id]
                assert (await box.exec(["python", "-c", "print(3)"])).stdout == "3\n"

    asyncio.run(work())


@pytest.mark.parametrize("slow", ["slow_create_s", "slow_reply_s"])
def test_a_cancelled_create_returns_at_once_and_leaves_nothing(modal: StandIn, env: BuildContext, slow: str) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            setattr(modal.faults, slow, 3.0)
            before = modal.state.creates
            task = asyncio.ensure_future(provider.create(SandboxSpec(env)))
            while modal.state.creates == before:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task], timeout=1.5)
            assert task.cancelled()
        assert modal.state.boxes.running() == []

    asyncio.run(work())


def test_a_create_past_its_deadline_leaves_nothing(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            modal.faults.slow_reply_s = 3.0
            with pytest.raises(SandboxTimeout, match="not created within"):
                await provider.create(SandboxSpec(env), timeout=1.0)
        assert modal.state.boxes.running() == []

    asyncio.run(work())


def test_an_expired_token_of_a_worker_is_renewed(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider, await provider.create(SandboxSpec(env, serves=False)) as box:
            modal.faults.stale_router_tokens = 1
            assert (await box.exec(["python", "-c", "print(4)"])).stdout == "4\n"

    asyncio.run(work())


def test_a_proxy_that_knows_no_token_is_not_called_ready(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            await provider.prepare(env)
            modal.faults.no_connect_tokens = True
            with pytest.raises(SandboxNotReady, match="did not answer"):
                await provider.create(SandboxSpec(env, startup_timeout=2.0))
        assert modal.state.boxes.running() == []

    asyncio.run(work())


def test_wrong_credentials_are_told_without_them(modal: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-another-secret")

    async def work() -> str:
        provider = ModalProvider()
        try:
            with pytest.raises(SandboxAuthFailed) as raised:
                await provider.start()
            return str(raised.value)
        finally:
            await provider.close()

    text = asyncio.run(work())
    assert "modal token new" in text
    assert "as-another-secret" not in text


def test_no_credentials_are_told(modal: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODAL_TOKEN_ID")
    monkeypatch.delenv("MODAL_TOKEN_SECRET")

    async def work() -> None:
        provider = ModalProvider()
        with pytest.raises(SandboxAuthFailed, match="MODAL_TOKEN_ID"):
            await provider.start()
        await provider.close()

    asyncio.run(work())


def test_an_end_that_fails_is_tried_again(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            box = await provider.create(SandboxSpec(env, serves=False))
            modal.faults.failing_terminates = 5
            await box.close()
            assert modal.state.boxes.running() == []

    asyncio.run(work())


def test_a_build_has_a_deadline_of_its_own(modal: StandIn, env: BuildContext) -> None:
    (env.path / "server.py").write_text(f"# {time.time_ns()}\n")

    async def work() -> None:
        modal.faults.slow_build_s = 4.0
        provider = ModalProvider(build_timeout_s=1.0)
        with pytest.raises(BuildFailed, match="longer than 1 s"):
            await provider.prepare(env)
        await provider.close()

    asyncio.run(work())


def test_a_closed_provider_says_so(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        provider = ModalProvider()
        await provider.start()
        await provider.close()
        for call in (provider.start(), provider.prepare(env), provider.create(SandboxSpec(env))):
            with pytest.raises(SandboxUnavailable, match="closed"):
                await call

    asyncio.run(work())


def test_who_is_idle_ends_and_who_is_kept_does_not(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider(idle_timeout_s=9) as provider:
            kept = await provider.create(SandboxSpec(env, serves=False))
            idle = await provider.create_box(SandboxSpec(env, serves=False), keep=False)
            for _ in range(300):
                if await idle.status() != "running":
                    break
                await asyncio.sleep(0.1)
            assert await idle.status() == "exited"
            assert await kept.status() == "running"

    asyncio.run(work())
