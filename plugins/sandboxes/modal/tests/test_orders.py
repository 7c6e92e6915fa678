"""What Modal is asked for, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.errors import CreateFailed, SandboxError, SandboxUnsupported, UsageError
from agent_env.plugin.sandbox import HostImage, ImageRef, Resources, SandboxSpec, TemplateRef
from agent_env.sandboxes.modal.provider import ModalProvider
from agent_env.sandboxes.modal.standin.server import StandIn
from modal_proto import api_pb2

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import BuildContext

KINDS = api_pb2.NetworkAccess.NetworkAccessType


def asked(modal: StandIn) -> api_pb2.SandboxCreateV2Request:
    return modal.state.orders[-1]


@pytest.mark.parametrize(
    ("serves", "network", "kind"),
    [
        (True, None, KINDS.ALLOWLIST),
        (True, "none", KINDS.ALLOWLIST),
        (True, "open", KINDS.OPEN),
        (False, None, KINDS.BLOCKED),
        (False, "open", KINDS.OPEN),
    ],
)
def test_network(modal: StandIn, env: BuildContext, serves: bool, network: Any, kind: int) -> None:
    async def work() -> None:
        async with ModalProvider() as provider, await provider.create(SandboxSpec(env, serves=serves, network=network)):
            access = asked(modal).definition.network_access
            assert access.network_access_type == kind
            assert (list(access.allowed_cidrs), list(access.allowed_domains)) == ([], [])

    asyncio.run(work())


def test_limits_are_limits_and_life_is_finite(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        options: dict[str, Any] = {"memory_mb": 512, "region": "us-east", "idle_timeout_s": 700}
        async with ModalProvider(**options) as provider:
            spec = SandboxSpec(env, serves=False, resources=Resources(cpu=0.5), ttl_s=1234.5, secrets={"KEY": "hush"})
            async with await provider.create(spec) as box:
                order = asked(modal)
                got = order.definition
                assert (got.resources.milli_cpu, got.resources.milli_cpu_max) == (500, 500)
                assert (got.resources.memory_mb, got.resources.memory_mb_max) == (512, 512)
                assert (got.timeout_secs, got.idle_timeout_secs) == (1235, 700)
                assert list(got.scheduler_placement.regions) == ["us-east"]
                assert got.name == f"agentenv-{box.create_id}"
                assert all("hush" not in f"{tag.tag_name}{tag.tag_value}" for tag in order.tags)
                assert all(tag.tag_value.isprintable() and len(tag.tag_value) <= 64 for tag in order.tags)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ttl_s": 86401.0}, "at most 86400 s"),
        ({"ttl_s": 0.0}, "a life of 0 s"),
        ({"resources": Resources(disk_mb=1)}, "disk_mb"),
        ({"resources": Resources(memory_mb=64)}, "128"),
        ({"isolation": "vm"}, r"modal\.runtime=vm"),
        ({"image": HostImage()}, "runs images"),
    ],
)
def test_what_cannot_be_kept_is_refused(modal: StandIn, env: BuildContext, changes: Any, said: str) -> None:
    async def work() -> None:
        before = modal.state.creates
        async with ModalProvider() as provider:
            with pytest.raises(SandboxUnsupported, match=said):
                await provider.create(replace(SandboxSpec(env), **changes))
        assert modal.state.creates == before

    asyncio.run(work())


def test_a_life_is_not_extended(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider, await provider.create(SandboxSpec(env, serves=False)) as box:
            with pytest.raises(SandboxUnsupported, match="cannot be extended"):
                await box.extend(60.0)

    asyncio.run(work())


def test_images_by_name_and_by_id(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            async with await provider.create(SandboxSpec(ImageRef("python:3.11-slim"), serves=False)) as box:
                assert (await box.exec(["python", "-c", "print(5)"])).stdout == "5\n"
            await provider.prepare(env)
            images = modal.state.builder.images.values()
            image_id = next(image.id for image in images if (image.root / "app" / "server.py").exists())
            command = ("python", "/app/server.py")
            async with await provider.create(SandboxSpec(TemplateRef(image_id), command=command)) as box:
                assert (await box.endpoint()).url
            with pytest.raises(SandboxError, match="im-nothing"):
                await provider.create(SandboxSpec(TemplateRef("im-nothing"), serves=False))
            with pytest.raises((CreateFailed, SandboxError)):
                await provider.create(SandboxSpec(TemplateRef("no id at all"), serves=False))

    asyncio.run(work())


def test_lists_of_several_pages(modal: StandIn, env: BuildContext) -> None:
    async def work() -> None:
        async with ModalProvider() as provider:
            boxes = await asyncio.gather(*(provider.create(SandboxSpec(env, serves=False)) for _ in range(5)))
            assert {record.id async for record in provider.list()} == {box.id for box in boxes}

    asyncio.run(work())


def test_the_same_content_is_built_once(modal: StandIn, env: BuildContext) -> None:
    async def work() -> int:
        async with ModalProvider() as one, ModalProvider() as other:
            before = modal.state.builder.builds
            await asyncio.gather(one.prepare(env), one.prepare(env))
            await other.prepare(env)
            return modal.state.builder.builds - before

    asyncio.run(work())
    assert asyncio.run(work()) == 0
    (env.path / "server.py").write_text((env.path / "server.py").read_text() + "# changed\n")
    assert asyncio.run(work()) == 1


def test_a_tunnel_is_https_and_the_only_port(env: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(service: StandIn) -> None:
        async with ModalProvider(access="tunnel") as provider, await provider.create(SandboxSpec(env)) as box:
            endpoint = await box.endpoint()
            assert endpoint.url.startswith("https://localhost:")
            assert dict(endpoint.headers) == {}
            assert [spec.port for spec in asked(service).definition.open_ports.ports] == [18765]
            async with httpx.AsyncClient() as client:
                assert (await client.post(f"{endpoint.url}/echo", content=b"over TLS")).content == b"over TLS"

    with StandIn(tls=True) as service:
        for name, value in {**service.environment, "SSL_CERT_FILE": str(service.certificate)}.items():
            monkeypatch.setenv(name, value)
        asyncio.run(work(service))
        assert service.state.boxes.running() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [({"access": "open"}, "access"), ({"app": "a b"}, "app"), ({"no": "1"}, "known: app"), ({"cpu": "0"}, "cpu")],
)
def test_wrong_options_are_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ModalProvider(**options)


def test_lists_come_as_text() -> None:
    assert ModalProvider(inbound_cidrs="10.0.0.0/8, 192.0.2.0/24").options.inbound_cidrs == (
        "10.0.0.0/8",
        "192.0.2.0/24",
    )
    assert ModalProvider(runtime="vm").capabilities.isolation == "vm"
