"""What the service does wrong, and what must not be left behind then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import CreateFailed, SandboxError, SandboxTimeout, SandboxUnsupported
from agent_env.plugin.sandbox import SandboxSpec, TemplateRef
from agent_env.sandboxes.e2b.provider import AenvProvider, E2BProvider
from agent_env.sandboxes.e2b.testing.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext
    from agent_env.sandboxes.e2b.testing.server import StandIn

Options = dict[str, str]


def idle(image: BuildContext) -> SandboxSpec:
    return SandboxSpec(image=image, serves=False, label="idle", ttl_s=300.0)


def creates(standin: StandIn) -> int:
    return sum(request == ("POST", "/v2/sandboxes") for request in standin.control.requests)


async def none_left(standin: StandIn) -> None:
    for _ in range(300):
        if not standin.boxes:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"left behind: {list(standin.boxes)}")


@pytest.mark.parametrize("kind", ["create", "attach"])
def test_a_server_that_is_too_old_is_said_in_words_with_both_remedies(
    hosted: StandIn, env: BuildContext, kind: str
) -> None:
    async def go() -> str:
        async with AenvProvider(api_key=hosted.key, url=hosted.url) as provider:
            box = await provider.create(idle(env))
            hosted.faults.too_old = True
            try:
                with pytest.raises(SandboxUnsupported) as caught:
                    if kind == "create":
                        await provider.create(idle(env))
                    else:
                        await AenvProvider(api_key=hosted.key, url=hosted.url).attach(box.id)
            finally:
                hosted.faults.too_old = False
            return str(caught.value)

    message = asyncio.run(go())
    assert hosted.url in message
    assert "upgrade the server" in message
    assert "pip install --force-reinstall 'e2b<2.50'" in message
    assert not hosted.boxes


def test_a_rate_limit_is_waited_out(standin: StandIn, env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> int:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            before = creates(standin)
            standin.faults.add(Fault("create", status=429, message="slow down", retry_after=1, times=2))
            async with await provider.create(idle(env)):
                return creates(standin) - before

    assert asyncio.run(go()) == 3


def test_a_rate_limit_that_outlasts_the_sdk_holds_all_and_is_waited_out(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            standin.faults.add(Fault("create", status=429, message="slow down", times=5))
            async with await provider.create(idle(env)):
                pass

    asyncio.run(go())


def test_a_lost_answer_leaves_one_sandbox_where_keys_are_known(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            standin.faults.add(Fault("create", "lost"))
            async with await provider.create(idle(env)) as box:
                assert list(standin.boxes) == [box.id]

    asyncio.run(go())


def test_a_lost_answer_leaves_one_sandbox_where_no_keys_are_known(hosted: StandIn, env: BuildContext) -> None:
    async def go() -> None:
        async with AenvProvider(api_key=hosted.key, url=hosted.url) as provider:
            await provider.prepare(env)
            before = hosted.control.created
            hosted.faults.add(Fault("create", "lost"))
            async with await provider.create(idle(env)) as box:
                assert list(hosted.boxes) == [box.id]
            assert hosted.control.created == before + 2

    asyncio.run(go())
    assert not hosted.boxes


def test_an_answer_that_comes_too_late_leaves_nothing(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options(request_timeout_s="1")) as provider:
            await provider.prepare(env)
            standin.faults.add(Fault("create", "slow_after", seconds=2.5))
            with pytest.raises(SandboxTimeout):
                await provider.create(idle(env))
            await none_left(standin)

    asyncio.run(go())


def test_a_cancelled_create_returns_at_once_and_leaves_nothing(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            before = standin.control.created
            standin.faults.add(Fault("create", "slow_after", seconds=1.5))
            creating = asyncio.create_task(provider.create(idle(env)))
            while not standin.boxes:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            creating.cancel()
            await asyncio.wait([creating], timeout=1.0)
            assert creating.cancelled()
            assert len(standin.boxes) == 1, "the service has not answered yet"
            await none_left(standin)
            assert standin.control.created == before + 1

    asyncio.run(go())


def test_a_provider_closed_while_the_service_is_slow_leaves_nothing(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        provider = E2BProvider(**options())
        await provider.prepare(env)
        standin.faults.add(Fault("create", "slow", seconds=1.0))
        creating = asyncio.create_task(provider.create(idle(env)))
        await asyncio.sleep(0.3)
        await provider.close()
        assert isinstance((await asyncio.gather(creating, return_exceptions=True))[0], SandboxError)

    asyncio.run(go())
    assert not standin.boxes


def test_an_end_is_tried_again(standin: StandIn, env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            box = await provider.create(idle(env))
            standin.faults.add(Fault("kill", status=500, times=2))
            await box.close()
            assert not standin.boxes

    asyncio.run(go())


def test_expired_tokens_are_replaced(standin: StandIn, env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with (
            E2BProvider(**options()) as provider,
            await provider.create(SandboxSpec(image=env, label="server")) as box,
        ):
            old = await box.endpoint()
            standin.rotate_tokens()
            assert (await box.exec(["echo", "again"])).stdout == "again\n"
            standin.rotate_tokens()
            await box.write("/tmp/x", b"data")
            assert await box.read("/tmp/x") == b"data"
            assert (await box.endpoint()).headers != old.headers

    asyncio.run(go())


def test_private_ports_without_a_token_are_refused(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            standin.faults.no_traffic_token = True
            with pytest.raises(CreateFailed, match=r"e2b\.ports=public"):
                await provider.create(SandboxSpec(image=env, label="server"))
            assert not standin.boxes

    asyncio.run(go())


def test_a_template_that_is_not_there_is_named(standin: StandIn, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            with pytest.raises(CreateFailed, match="no-such-template"):
                await provider.create(SandboxSpec(image=TemplateRef("no-such-template"), serves=False))

    asyncio.run(go())


def test_a_template_that_somebody_deleted_is_built_again(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            standin.control.templates.clear()
            async with await provider.create(idle(env)) as box:
                assert await box.status() == "running"

    asyncio.run(go())
