"""Starting env servers: how they listen, what they see, and how a failed start is told."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from agent_env.errors import SandboxNotReady, SandboxUnsupported, UsageError
from agent_env.plugin.sandbox import HostImage, ImageRef, Resources, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Endpoint, Isolation

    EnvFolder = Callable[..., BuildContext]

pytestmark = pytest.mark.usefixtures("processes")


async def get(endpoint: Endpoint) -> str:
    transport = httpx.AsyncHTTPTransport(uds=endpoint.uds) if endpoint.uds else None
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=60) as client:
        return (await client.get(f"{endpoint.url}/x")).text


@pytest.mark.parametrize("tcp", [False, True])
def test_serves(env_folder: EnvFolder, state_dir: Path, isolation: Isolation, tcp: bool) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            async with await provider.create(SandboxSpec(image=env_folder(tcp=tcp), label="web")) as sandbox:
                endpoint = await sandbox.endpoint()
                assert "'ENVIRONMENT_NAME': 'web'" in await get(endpoint)
                assert (endpoint.uds is None) == (tcp and isolation == "none")
                assert sandbox.isolation == isolation
                assert await sandbox.status() == "running"
            assert await sandbox.status() == "gone"

    asyncio.run(play())


def test_works_on_the_loop_of_the_server(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            for tcp in (False, True):
                sandbox = await provider.create(SandboxSpec(image=env_folder(tcp=tcp)))
                assert "MCP_PORT" in await get(await sandbox.endpoint())
                assert (await sandbox.exec(["cat"], stdin=b"x")).stdout == "x"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


def test_relay_carries_large_bodies_and_many_clients(
    env_folder: EnvFolder, state_dir: Path, need_bubblewrap: None
) -> None:
    body = 'os.environ["BIG"] = "x" * 3_000_000'

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="namespace") as provider:
            sandbox = await provider.create(SandboxSpec(image=env_folder(body, tcp=True)))
            endpoint = await sandbox.endpoint()
            assert endpoint.uds is not None
            texts = await asyncio.gather(*(get(endpoint) for _ in range(8)))
            assert {len(text) > 3_000_000 for text in texts} == {True}

    asyncio.run(play())


def test_environment_is_explicit(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "inherited-key")
    spec = SandboxSpec(image=env_folder(), env={"PLAIN": "p1"}, secrets={"TOKEN": "given-secret"})

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            sandbox = await provider.create(spec)
            text = await get(await sandbox.endpoint())
            assert "inherited-key" not in text
            assert "'PLAIN': 'p1'" in text
            assert "'TOKEN': 'given-secret'" in text
            assert (await sandbox.exec(["sh", "-c", "echo $SOME_API_KEY$TOKEN"])).stdout == "given-secret\n"
            kept = b"".join(path.read_bytes() for path in state_dir.rglob("*.json"))  # noqa: ASYNC240
            assert b"p1" in kept
            assert b"given-secret" not in kept
            assert "given-secret" not in repr(sandbox) + repr(sandbox.launch)

    asyncio.run(play())


def test_an_episode_cannot_change_the_bundle(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    image = env_folder('open("server.py", "a").write("garbage"); open("fresh", "w").write("x")')
    (image.path / "data").mkdir()
    (image.path / "data" / "rows.txt").write_text("rows")
    before = {path: path.read_bytes() for path in image.path.rglob("*") if path.is_file()}

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            for _ in range(2):
                sandbox = await provider.create(SandboxSpec(image=image))
                assert await sandbox.read("data/rows.txt") == b"rows"
                assert await sandbox.read("/srv/env/fresh") == b"x"
                done = await sandbox.exec(["sh", "-c", "echo changed > data/rows.txt; cat data/rows.txt"])
                assert done.stdout == "changed\n"

    asyncio.run(play())
    assert {path: path.read_bytes() for path in image.path.rglob("*") if path.is_file()} == before


def test_a_server_that_ends_says_why_at_once(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    image = env_folder('import sys; print("no licence found", flush=True); sys.exit(3)')

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            with pytest.raises(SandboxNotReady, match=r"exit code 3.*no licence found") as caught:
                await provider.create(SandboxSpec(image=image, startup_timeout=100), timeout=100)
            assert caught.value.exit_code == 3
            assert not caught.value.retryable
            assert "no licence found" in caught.value.log_tail
            assert not caught.value.retryable

    asyncio.run(play())


@pytest.mark.parametrize(("body", "status", "words"), [("", 503, "HTTP 503"), ("import time; time.sleep(99)", 200, "")])
def test_a_server_that_is_never_ready(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, body: str, status: int, words: str
) -> None:
    image = env_folder(f'print("starting up", flush=True)\n{body}', status=status)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            with pytest.raises(SandboxNotReady, match=f"not ready after 3 s.*{words}.*starting up"):
                await provider.create(SandboxSpec(image=image, startup_timeout=3))

    asyncio.run(play())


def test_a_server_that_ignores_its_port_is_refused_in_words(env_folder: EnvFolder, state_dir: Path) -> None:
    image = env_folder('os.environ["MCP_PORT"] = "0"', tcp=True)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="none") as provider:
            with pytest.raises(SandboxUnsupported, match=r"ignores MCP_PORT=.*AGENTENV_UDS"):
                await provider.create(SandboxSpec(image=image, startup_timeout=3))

    asyncio.run(play())


def test_own_port_works_in_an_own_network(env_folder: EnvFolder, state_dir: Path, need_bubblewrap: None) -> None:
    image = env_folder('os.environ["MCP_PORT"] = "8123"', tcp=True, toml="[process]\nport = 8123\n")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="namespace") as provider:
            boxes = await asyncio.gather(*(provider.create(SandboxSpec(image=image)) for _ in range(3)))
            for box in boxes:
                assert "'MCP_PORT': '8123'" in await get(await box.endpoint())

    asyncio.run(play())


def test_log_is_capped(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    image = env_folder('for i in range(20000): print(f"line {i} " + "x" * 80)\nprint("the end", flush=True)')

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation, log_kb=64) as provider:
            sandbox = await provider.create(SandboxSpec(image=image))
            assert (await sandbox.logs()).endswith("the end\n")
            size = sum(path.stat().st_size for path in sandbox.folder.glob("log*"))
            assert 16 * 1024 < size <= 64 * 1024

    asyncio.run(play())


def test_files_are_limited(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation, file_mb=1) as provider:
            sandbox = await provider.create(SandboxSpec(image=env_folder()))
            done = await sandbox.exec(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=3"])
            assert done.exit_code != 0
            assert len(await sandbox.read("big")) == 1024 * 1024
            assert (await sandbox.exec(["sh", "-c", "ulimit -c; ulimit -n"])).stdout == "0\n4096\n"

    asyncio.run(play())


def test_unusable_specs_are_refused_in_words(env_folder: EnvFolder, state_dir: Path, isolation: Isolation) -> None:
    image = env_folder()
    missing = env_folder(toml='[process]\ncommand = ["no-such-program"]\n')
    cases: list[tuple[SandboxSpec, type[Exception], str]] = [
        (SandboxSpec(image=ImageRef("python:3")), SandboxUnsupported, "runs env folders, not images"),
        (SandboxSpec(image=image, isolation="vm"), SandboxUnsupported, "isolation 'vm' was asked for"),
        (SandboxSpec(image=image, resources=Resources(disk_mb=5)), SandboxUnsupported, "disk_mb"),
        (SandboxSpec(image=missing), SandboxNotReady, "no-such-program"),
        (SandboxSpec(image=HostImage()), SandboxUnsupported, "no command"),
        (SandboxSpec(image=image, env={"BIG": "x" * 300_000}), SandboxUnsupported, "too large"),
    ]

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            for spec, error, words in cases:
                with pytest.raises(error, match=words):
                    await provider.create(spec)
            if isolation == "none":
                for spec in (SandboxSpec(image=image, network="none"), SandboxSpec(image=image, isolation="shared")):
                    with pytest.raises(SandboxUnsupported, match="asked for"):
                        await provider.create(spec)

    asyncio.run(play())


def test_a_command_in_shell_form_is_run_by_a_shell(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation
) -> None:
    image = env_folder()
    (image.path / "Dockerfile").write_text("FROM x\nWORKDIR /srv/env\nCMD echo $((40 + 2)) && exec python server.py\n")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            sandbox = await provider.create(SandboxSpec(image=image))
            assert await sandbox.logs() == "42\n"

    asyncio.run(play())


def test_wrong_options_are_refused_in_words(state_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"log_kb.*unheard_of"):
        ProcessProvider(state_dir=state_dir, log_kb=0, unheard_of=1)


def test_a_state_folder_of_others_or_too_long_is_refused(tmp_path: Path) -> None:
    shared = Path(tempfile.mkdtemp(prefix="ae-"))
    shared.chmod(0o755)

    async def start(path: Path, words: str) -> None:
        provider = ProcessProvider(state_dir=path)
        with pytest.raises(Exception, match=words):
            await provider.start()
        await provider.close()

    asyncio.run(start(shared, "mode 0700"))
    shared.rmdir()
    asyncio.run(start(tmp_path / ("x" * 100), "too long for unix sockets"))


def test_a_provider_without_isolation_says_so_at_its_start(
    state_dir: Path, isolation: Isolation, caplog: pytest.LogCaptureFixture
) -> None:
    async def start() -> str:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            return provider.capabilities.isolation

    assert asyncio.run(start()) == isolation
    warned = [record.getMessage() for record in caplog.records if "without isolation" in record.getMessage()]
    if isolation == "none":
        assert len(warned) == 1
        assert "the option isolation=none turns it off; install bubblewrap, or take another" in warned[0]
    else:
        assert warned == []
