"""The ways to a container's server: a shared socket, a tunnel through the engine, a published port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from agent_env.episode import code_runner
from agent_env.errors import SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import CodeRequest, Resources, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider
from agent_env.testing.sandbox_http import echo_websocket, get, post

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext

pytestmark = pytest.mark.docker

Way = Literal["socket", "tunnel", "port"]


def inspect(docker: Callable[..., str], box_id: str) -> dict[str, Any]:
    (found,) = json.loads(docker("inspect", box_id))
    return dict(found)


@pytest.mark.parametrize("way", ["socket", "tunnel", "port"])
@pytest.mark.parametrize("mode", ["", "tcp"])
def test_a_server_is_reached(way: Way, mode: str, env_folder: Callable[..., BuildContext]) -> None:
    async def play() -> None:
        async with DockerProvider(endpoint=way) as provider:
            spec = SandboxSpec(image=env_folder(), env={"CHECK_MODE": mode}, label="way")
            async with await provider.create(spec) as box:
                endpoint = await box.endpoint()
                assert (endpoint.uds is None) == (way == "port")
                body = bytes(range(256)) * 4096
                assert await post(endpoint, "/echo", body) == body
                answers = await asyncio.gather(*(post(endpoint, "/echo", b"%d" % n) for n in range(6)))
                assert answers == [b"%d" % n for n in range(6)]
                assert await echo_websocket(endpoint, ["one", "two"]) == ["one", "two"]
                attached = await DockerProvider.attach(provider, box.id)
                assert attached.id == box.id
            async with DockerProvider(endpoint=way) as other:
                box = await provider.create(spec)
                again = await other.attach(box.id)
                assert await get(await again.endpoint(), "/env?name=CHECK_MODE") == json.dumps(mode).encode()
                await box.close()

    asyncio.run(play())


def test_a_container_has_no_network_and_no_rights(
    env_folder: Callable[..., BuildContext], docker: Callable[..., str]
) -> None:
    async def play() -> None:
        async with DockerProvider() as provider:
            limits = Resources(cpu=0.5, memory_mb=128, pids=64)
            async with await provider.create(SandboxSpec(image=env_folder(), resources=limits)) as box:
                host = inspect(docker, box.id)["HostConfig"]
                assert host["NetworkMode"] == "none"
                assert host["CapDrop"] == ["ALL"]
                assert "no-new-privileges:true" in host["SecurityOpt"]
                assert (host["NanoCpus"], host["Memory"], host["PidsLimit"]) == (500_000_000, 128 << 20, 64)
                assert host["MemorySwap"] == host["Memory"], "memory could be swapped out beyond its limit"
                assert host["Init"] is True
                done = await box.exec(["python", "-c", "b = bytearray(400 << 20); print(len(b))"], timeout=30)
                assert done.exit_code == 137, f"the limit of memory is not kept: {done}"
                code = "import os; [os.fork() or __import__('time').sleep(9) for _ in range(99)]"
                done = await box.exec(["python", "-c", code], timeout=30)
                assert "Resource temporarily unavailable" in done.stderr, "the limit of processes is not kept"

    asyncio.run(play())


def test_open_means_out_but_not_across(env_folder: Callable[..., BuildContext], docker: Callable[..., str]) -> None:
    async def play() -> None:
        async with DockerProvider() as provider:
            spec = SandboxSpec(image=env_folder(), network="open", env={"CHECK_MODE": "tcp"})
            one, other = await asyncio.gather(provider.create(spec), provider.create(spec))
            networks = inspect(docker, other.id)["NetworkSettings"]["Networks"]
            assert list(networks) == ["agentenv"]
            address = networks["agentenv"]["IPAddress"]
            code = f"import socket; socket.create_connection(({address!r}, 18765), 2)"
            done = await one.exec(["python", "-c", code])
            assert "imed out" in done.stderr, f"containers reach each other: {done}"
            assert await post(await one.endpoint(), "/echo", b"x") == b"x"

    asyncio.run(play())


def test_a_read_only_root(env_folder: Callable[..., BuildContext]) -> None:
    async def play() -> None:
        image = env_folder(toml='[docker]\nread_only = true\ntmpfs = ["/var/work"]\n')
        async with DockerProvider() as provider, await provider.create(SandboxSpec(image=image)) as box:
            done = await box.exec(["python", "-c", "open('/app/x', 'w')"])
            assert "Read-only file system" in done.stderr
            for folder in ("/tmp", "/var/work"):
                await box.write(f"{folder}/a/b", b"written")
                assert (await box.exec(["cat", f"{folder}/a/b"])).stdout == "written"

    asyncio.run(play())


@pytest.mark.parametrize("way", ["socket", "tunnel"])
def test_a_server_on_a_port_of_its_own(way: Way, env_folder: Callable[..., BuildContext]) -> None:
    command = ("python", "-c", "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8123)")

    async def play() -> None:
        async with DockerProvider(endpoint=way) as provider:
            stubborn = SandboxSpec(image=env_folder(), command=command, startup_timeout=4, label="stubborn")
            with pytest.raises(SandboxUnsupported, match=r"listens on port 8123 and ignores MCP_PORT"):
                await provider.create(stubborn)
            told = env_folder(toml="[docker]\nport = 8123\n")
        async with (
            DockerProvider(endpoint=way) as provider,
            await provider.create(SandboxSpec(image=told, command=command)) as box,
        ):
            assert b"server.py" in await get(await box.endpoint(), "/")

    asyncio.run(play())


@pytest.mark.parametrize("way", ["socket", "tunnel"])
def test_code_reaches_an_env_on_loopback(way: Way, env_folder: Callable[..., BuildContext], tmp_path: Path) -> None:
    """What verifiers do: an http URL on this machine's loopback, from code that runs in the env's image."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "verify.py").write_text(
        "import urllib.request\ndef verify(url):\n    return urllib.request.urlopen(url + '/x').status\n"
    )

    async def play() -> None:
        from agent_env.env.relay import Relay

        image = env_folder()
        async with (
            DockerProvider(endpoint=way) as provider,
            await provider.create(SandboxSpec(image=image)) as box,
            Relay(await box.endpoint()) as relay,
        ):
            code, runner = tmp_path / "code", Path(code_runner.__file__)
            request = CodeRequest(code, "verify.py", "verify", (relay.url,), runner, timeout=30)
            assert await provider.run_code(image, request) == 200

    asyncio.run(play())


def test_a_socket_cannot_be_led_elsewhere(env_folder: Callable[..., BuildContext]) -> None:
    """The folder with the socket is the container's to write: a link in its place is not followed."""

    async def play() -> None:
        async with DockerProvider() as provider, await provider.create(SandboxSpec(image=env_folder())) as box:
            endpoint = await box.endpoint()
            code = "import os; os.rename('/run/agentenv/s', '/run/agentenv/x'); os.symlink('{}', '/run/agentenv/s')"
            done = await box.exec(["python", "-c", code.format("/var/run/docker.sock")])
            assert done.exit_code == 0, done.stderr
            assert await post(endpoint, "/echo", b"still the env") == b"still the env"
            async with DockerProvider() as other:
                with pytest.raises(SandboxUnsupported):
                    await (await other.attach(box.id)).endpoint()

    asyncio.run(play())


def test_waiting_in_line_takes_no_time_from_a_create(env_folder: Callable[..., BuildContext]) -> None:
    """The one before it holds the only place for longer than this create may take."""

    async def play() -> None:
        image = env_folder()
        async with DockerProvider(max_starts=1, guard=False) as provider:
            await provider.prepare(image)
            silent = SandboxSpec(image=image, env={"CHECK_MODE": "silent"}, startup_timeout=8)
            first = asyncio.create_task(provider.create(silent))
            await asyncio.sleep(0.1)
            async with await provider.create(SandboxSpec(image=image), timeout=6):
                with pytest.raises(SandboxNotReady):
                    await first

    asyncio.run(play())
