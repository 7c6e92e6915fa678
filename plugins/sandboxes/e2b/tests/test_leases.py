"""Lives: leases that are renewed, sizes, ports, what attach and reap see."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from agent_env.errors import SandboxGone, SandboxUnsupported
from agent_env.plugin.sandbox import ImageRef, Resources, SandboxSpec, TemplateRef
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.e2b.provider import E2BProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext
    from agent_env.sandboxes.e2b.testing.server import StandIn

Options = dict[str, str]


def idle(image: BuildContext, **changes: float) -> SandboxSpec:
    return SandboxSpec(image=image, serves=False, label="idle", ttl_s=changes.get("ttl_s", 300.0))


def test_a_lease_is_renewed_and_the_service_knows_no_more_than_the_lease(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options(lease_s="10")) as provider, await provider.create(idle(env)) as box:
            assert box.expires_at is not None
            assert box.expires_at > time.time() + 200
            first = standin.boxes[box.id].end_at
            assert first < time.time() + 11
            for _ in range(400):
                if standin.boxes[box.id].end_at > first + 1:
                    break
                await asyncio.sleep(0.05)
            assert first + 1 < standin.boxes[box.id].end_at < time.time() + 11

    asyncio.run(go())


def test_more_life_given_by_another_process_is_not_taken_back(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options(lease_s="5")) as provider, await provider.create(idle(env)) as box:
            other = E2BProvider(**options())
            await (await other.attach(box.id)).extend(2000.0)
            await asyncio.sleep(3.5)
            assert standin.boxes[box.id].end_at > time.time() + 1900
            await other.close()
            assert box.id in standin.boxes, "closing a provider ended what another one made"

    asyncio.run(go())


def test_a_sandbox_that_the_service_ended_is_gone(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider, await provider.create(idle(env)) as box:
            assert standin.end(box.id)
            assert await box.status() == "gone"
            with pytest.raises(SandboxGone):
                await box.exec(["true"])
            with pytest.raises(SandboxGone):
                await box.read("/etc/passwd")

    asyncio.run(go())


def test_a_command_whose_sandbox_ends_says_so(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider, await provider.create(idle(env)) as box:
            running = asyncio.create_task(box.exec(["sleep", "60"], timeout=50))
            await asyncio.sleep(0.5)
            assert await asyncio.to_thread(standin.end, box.id)
            with pytest.raises(SandboxGone):
                await running

    asyncio.run(go())


def test_a_longer_life_than_the_account_allows_is_refused(env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with E2BProvider(**options(max_ttl_s="3600")) as provider:
            with pytest.raises(SandboxUnsupported, match="max_ttl_s"):
                await provider.create(idle(env, ttl_s=4000.0))

    asyncio.run(go())


def test_what_dead_owners_left_is_reaped_at_start_and_nothing_else(
    standin: StandIn, env: BuildContext, options: Callable[..., Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lease.owner()

    def owned(**changes: object) -> None:
        monkeypatch.setattr(lease, "owner", lambda: {**real, **changes})

    async def go() -> list[str]:
        first = E2BProvider(**options())
        await first.start()
        mine = await first.create(idle(env))
        owned(start=1)
        await first.create(idle(env))
        owned(host="another-host")
        elsewhere = await first.create(idle(env))
        async with E2BProvider(**options()):
            assert sorted(standin.boxes) == sorted([mine.id, elsewhere.id])
        async with E2BProvider(**options()) as other:
            records = {record.id: record.owner_alive async for record in other.list()}
            assert records == {mine.id: True, elsewhere.id: None}
            reaped = list(await other.reap(older_than_s=0.0))
        await first.close()
        return [reaped[0], elsewhere.id, str(len(reaped))]

    reaped, elsewhere, count = asyncio.run(go())
    assert (reaped, count) == (elsewhere, "1")


def test_a_size_makes_a_template_of_its_own(
    standin: StandIn, env: BuildContext, options: Callable[..., Options]
) -> None:
    async def go() -> None:
        async with E2BProvider(**options(cpu="3")) as provider:
            spec = SandboxSpec(image=env, serves=False, resources=Resources(memory_mb=1024))
            async with await provider.create(spec) as box:
                made = standin.boxes[box.id].template
                assert (made.cpu, made.memory_mb) == (3, 1024)
            named = SandboxSpec(image=TemplateRef(made.name), serves=False, resources=Resources(memory_mb=1024))
            async with await provider.create(named) as box:
                assert standin.boxes[box.id].template is made

    asyncio.run(go())


@pytest.mark.parametrize(
    ("resources", "word"),
    [
        (Resources(cpu=1.5), "whole number"),
        (Resources(memory_mb=1001), "even number"),
        (Resources(pids=10), "processes"),
        (Resources(disk_mb=100), "disk"),
    ],
)
def test_sizes_that_cannot_be_are_refused(
    env: BuildContext, options: Callable[..., Options], resources: Resources, word: str
) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            with pytest.raises(SandboxUnsupported, match=word):
                await provider.create(SandboxSpec(image=env, serves=False, resources=resources))

    asyncio.run(go())


def test_a_size_for_a_plain_template_is_refused_in_words(options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            for resources in (Resources(cpu=2), Resources(memory_mb=512)):
                with pytest.raises(SandboxUnsupported, match="fixed when a template is built"):
                    await provider.create(SandboxSpec(image=TemplateRef("base"), serves=False, resources=resources))

    asyncio.run(go())


def test_a_port_wants_its_token(standin: StandIn, env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with (
            E2BProvider(**options()) as provider,
            await provider.create(SandboxSpec(image=env, label="server")) as box,
            httpx.AsyncClient() as http,
        ):
            endpoint = await box.endpoint()
            token = standin.boxes[box.id].traffic_token
            assert token in endpoint.headers.values()
            assert token not in repr(endpoint)
            assert (await http.get(f"{endpoint.url}/x", headers=dict(endpoint.headers))).status_code == 200
            without = {name: value for name, value in endpoint.headers.items() if value != token}
            assert (await http.get(f"{endpoint.url}/x", headers=without)).status_code == 403

    asyncio.run(go())


def test_public_ports_want_none(standin: StandIn, env: BuildContext, options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with (
            E2BProvider(**options(ports="public")) as provider,
            await provider.create(SandboxSpec(image=env, label="server")) as box,
        ):
            assert not standin.boxes[box.id].private
            assert set((await box.endpoint()).headers) == {"E2b-Sandbox-Id", "E2b-Sandbox-Port"}

    asyncio.run(go())


def test_an_image_by_name_becomes_a_template(options: Callable[..., Options]) -> None:
    async def go() -> None:
        async with E2BProvider(**options()) as provider:
            spec = SandboxSpec(image=ImageRef("python:3.11-slim"), serves=False)
            async with await provider.create(spec) as box:
                assert (await box.exec(["python", "-c", "print(1)"])).stdout == "1\n"

    asyncio.run(go())
