"""Sandbox providers of third parties: made, prepared, asked, closed; and what their errors become."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest
from agent_env.episode import Engine, providers
from agent_env.episode.chain import ChainProvider
from agent_env.errors import (
    BuildFailed,
    EpisodeFailed,
    PluginError,
    QuotaExceeded,
    SandboxError,
    SandboxNotReady,
    SandboxUnavailable,
    UsageError,
)
from agent_env.plugin import SandboxInfo, hookimpl
from agent_env.plugin.sandbox import BuildContext, Capabilities, ImageRef, SandboxProvider
from agent_env.registry import Registry
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import Image, Sandbox, SandboxRecord, SandboxSpec

Build = Any


class Options(BaseModel):
    """Options of the provider below."""

    region: Literal["north", "south"] = "north"
    rooms: int = 1


class Cloud(SandboxProvider):
    """Refuses with what it is told to."""

    name = "cloud"
    capabilities = Capabilities(isolation="vm", limits=frozenset({"memory_mb"}))

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.calls: list[str] = []
        self.error: Exception = SandboxUnavailable("no machine is free")
        self.broken_build: Exception | None = None
        self.broken_start: Exception | None = None
        self.spec: SandboxSpec | None = None
        self.timeout = 0.0

    async def start(self) -> None:
        self.calls.append("start")
        if self.broken_start is not None:
            raise self.broken_start

    async def close(self) -> None:
        self.calls.append("close")

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        assert isinstance(image, BuildContext)
        self.calls.append(f"prepare {image.path.name}")
        await asyncio.sleep(0)
        if self.broken_build is not None:
            raise self.broken_build

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        self.calls.append(f"create {spec.label}")
        self.spec = spec
        self.timeout = timeout
        raise self.error

    async def attach(self, sandbox_id: str) -> Sandbox:
        raise NotImplementedError

    def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        raise NotImplementedError

    async def destroy(self, sandbox_id: str) -> bool:
        return False

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        return ()


class Limitless(Cloud):
    """Keeps no limit, and shuts nothing in."""

    name = "limitless"
    capabilities = Capabilities(isolation="none")


class Hooks:
    """Offers it with and without options."""

    @hookimpl
    def agentenv_sandboxes(self) -> list[SandboxInfo]:
        return [
            SandboxInfo("cloud", "With options", "acme_cloud:Cloud", options="acme_cloud:Options"),
            SandboxInfo("bare", "Without options", "acme_cloud:Cloud"),
            SandboxInfo("limitless", "Without limits", "acme_cloud:Limitless"),
        ]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """With the provider of this file."""
    import sys
    from types import ModuleType

    module = ModuleType("acme_cloud")
    vars(module).update(Cloud=Cloud, Limitless=Limitless, Options=Options)
    monkeypatch.setitem(sys.modules, "acme_cloud", module)
    return Registry({"acme:acme": Hooks()})


@pytest.fixture
def two_envs(bundle: Build, steps: Any) -> Build:
    """Two tasks with an env each."""
    bundle.env().env("other")
    bundle.task(steps.deploy, steps.ask, steps.reply, name="one")
    bundle.task({"type": "deploy_env", "env_id": "other", "memory_mb": 512}, steps.ask, steps.reply, name="two")
    return bundle


def provider_of(engine: Engine) -> Cloud:
    deployer: Any = engine._services.deployer
    provider: Cloud = deployer._providers.make(None)
    return provider


@pytest.mark.parametrize("slow", [True, False])
def test_a_slow_start_is_told(
    two_envs: Build, registry: Registry, slow: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(providers, "QUIET_S", 0.01 if slow else 60.0)
    told = "sandbox provider cloud: its start takes longer than"

    async def play() -> None:
        engine = Engine(two_envs.load(), registry=registry, sandbox="cloud")
        provider, answered = provider_of(engine), asyncio.Event()

        async def start() -> None:
            while slow and told not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            answered.set()

        monkeypatch.setattr(provider, "start", start)
        async with engine:
            await answered.wait()

    asyncio.run(play())
    assert (told in caplog.text) is slow


@pytest.mark.parametrize(("line", "seconds"), [("", 60.0), ("startup_timeout = 900\n", 900.0)])
def test_an_env_says_how_long_its_start_may_take(
    two_envs: Build, registry: Registry, line: str, seconds: float
) -> None:
    settings = two_envs.path / "envs" / "echo" / "agentenv.toml"
    settings.write_text(line + settings.read_text())

    async def play() -> None:
        engine = Engine(two_envs.load(), registry=registry, sandbox="cloud")
        provider = provider_of(engine)
        async with engine:
            with pytest.raises(EpisodeFailed, match="no machine is free"):
                await engine.episode(engine.bundle.task("all", 0), episode_id="mine").start()
        assert provider.spec is not None
        assert provider.spec.startup_timeout == seconds
        assert provider.timeout > seconds

    asyncio.run(play())


def test_life_of_a_provider(two_envs: Build, registry: Registry) -> None:
    async def play() -> None:
        options = {"cloud": {"rooms": "3"}}
        engine = Engine(two_envs.load(), registry=registry, sandbox="cloud", sandbox_options=options)
        provider = provider_of(engine)
        assert provider.options == {"rooms": 3}
        async with engine:
            await engine.prepared()
            assert provider.calls == ["start", "prepare echo", "prepare other"]
            with pytest.raises(EpisodeFailed, match="deploy: step 'deploy_env': no machine is free") as error:
                await engine.episode(engine.bundle.task("all", 1), episode_id="mine").start()
            assert error.value.failure.retryable
            assert provider.spec is not None
            assert provider.spec.labels == {"episode": "mine", "env": "other"}
            assert provider.spec.resources.memory_mb == 512
            assert provider.spec.resources.disk_mb is None
            assert provider.spec.env == {"ENVIRONMENT_NAME": "other"}
        assert provider.calls[3:] == ["create other", "close"]
        await engine.close()
        assert provider.calls[-2:] == ["create other", "close"]

    asyncio.run(play())


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("cloud", {"region": "east"}, ["region", "'north' or 'south'", "known options: region, rooms"]),
        ("cloud", {"rooms": "many"}, ["rooms: "]),
        ("bare", {"x": "1"}, ["provider 'bare' has no options; given: x"]),
    ],
)
def test_wrong_options_are_refused(
    two_envs: Build, registry: Registry, name: str, given: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(UsageError) as error:
        Engine(two_envs.load(), registry=registry, sandbox=name, sandbox_options={name: given})
    for word in words:
        assert word in str(error.value)


def test_an_unknown_provider_is_refused(two_envs: Build, registry: Registry) -> None:
    with pytest.raises(PluginError, match="clud"):
        Engine(two_envs.load(), registry=registry, sandbox="clud")


@pytest.mark.parametrize("chain", ["cloud,", ",cloud", "cloud,,bare", "cloud, cloud", ","])
def test_a_chain_with_a_gap_or_a_repetition_is_refused(two_envs: Build, registry: Registry, chain: str) -> None:
    with pytest.raises(UsageError, match=r"name different providers, with one comma between two of them"):
        Engine(two_envs.load(), registry=registry, sandbox=chain)


@pytest.mark.parametrize(
    ("error", "retryable", "words"),
    [
        (QuotaExceeded("quota used up"), True, "quota used up"),
        (SandboxError("no such image"), False, "no such image"),
        (SandboxNotReady("not ready", exit_code=3, log_tail="port in use"), True, "exit code 3"),
        (SandboxNotReady("not ready", exit_code=3, log_tail="port in use"), True, "port in use"),
    ],
)
def test_errors_of_create(two_envs: Build, registry: Registry, error: Exception, retryable: bool, words: str) -> None:
    async def play() -> None:
        provider = Cloud()
        provider.error = error
        async with Engine(two_envs.load(), registry=registry, sandbox=provider) as engine:
            with pytest.raises(EpisodeFailed) as failed:
                await engine.episode(engine.bundle.task("all", 0)).start()
            failure = failed.value.failure
            assert (failure.kind, failure.retryable) == ("deploy", retryable)
            assert words in failure.message

    asyncio.run(play())


def test_a_build_that_fails_is_told_to_every_episode_and_not_repeated_at_once(
    two_envs: Build, registry: Registry
) -> None:
    async def play() -> None:
        provider = Cloud()
        provider.broken_build = BuildFailed("the Dockerfile is broken", log="step 3: no such package")
        async with Engine(two_envs.load(), registry=registry, sandbox=provider) as engine:
            with pytest.raises(BuildFailed):
                await engine.prepared()
            for _ in range(2):
                with pytest.raises(EpisodeFailed, match=r"Dockerfile is broken[\s\S]*no such package") as failed:
                    await engine.episode(engine.bundle.task("all", 0)).start()
                assert (failed.value.failure.kind, failed.value.failure.retryable) == ("deploy", False)
            assert provider.calls.count("prepare echo") == 1

    asyncio.run(play())


@pytest.mark.parametrize("waits", [True, False])
def test_each_build_that_fails_is_said_once(
    two_envs: Build, registry: Registry, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> list[str]:
        provider = Cloud()
        provider.broken_build = BuildFailed("the Dockerfile is broken", log="no such package")
        async with Engine(two_envs.load(), registry=registry, sandbox=provider) as engine:
            if waits:
                with pytest.raises(BuildFailed) as told:
                    await engine.prepared()
                return [str(told.value)]
            while len(caplog.messages) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return []

    raised = asyncio.run(play())
    said = [*raised, *caplog.messages]
    assert [text.count("Dockerfile is broken") for text in said] == [1, 1]
    assert len(raised) == int(waits)


def test_a_build_that_fails_is_said_while_another_one_takes_long(
    two_envs: Build, registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def prepare(self: Cloud, image: BuildContext, **_: Any) -> None:
        if image.path.name == "other":
            raise BuildFailed("the Dockerfile is broken")
        await asyncio.Event().wait()

    monkeypatch.setattr(Cloud, "prepare", prepare)

    async def play() -> None:
        async with asyncio.timeout(30), Engine(two_envs.load(), registry=registry, sandbox="cloud") as engine:
            with pytest.raises(BuildFailed, match="Dockerfile is broken"):
                await engine.prepared()

    asyncio.run(play())
    assert caplog.messages == []


def test_who_waits_for_images_when_the_engine_closes_is_told_so(
    two_envs: Build, registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def prepare(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Cloud, "prepare", prepare)

    async def play() -> None:
        async with asyncio.timeout(30), Engine(two_envs.load(), registry=registry, sandbox="cloud") as engine:
            waiting = asyncio.create_task(engine.prepared())
            await asyncio.sleep(0)
            await engine.close()
            with pytest.raises(SandboxError, match="the engine is closed"):
                await waiting

    asyncio.run(play())
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("can", "sandbox", "words"),
    [
        (Capabilities(isolation="vm", limits=frozenset({"cpu", "memory_mb"})), "cloud", None),
        (Capabilities(isolation="vm", limits=frozenset({"cpu"})), "cloud", "limit of memory_mb (it keeps cpu)"),
        (Capabilities(isolation="vm"), "cloud", "limit of memory_mb (it keeps none here)"),
        (
            Capabilities(isolation="vm", limits=frozenset({"memory_mb"}), max_ttl_s=60.0),
            "cloud",
            "lets nothing live for 7200 s, 60 s are the most",
        ),
        (Capabilities(isolation="vm"), "cloud,bare", "'cloud' cannot keep a limit of memory_mb"),
    ],
)
def test_what_every_episode_will_be_refused_is_said_at_the_start(
    two_envs: Build,
    steps: Any,
    registry: Registry,
    can: Capabilities,
    sandbox: str,
    words: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Cloud, "capabilities", can)
    two_envs.task({"type": "deploy_env", "env_id": "other", "memory_mb": 512}, steps.ask, steps.reply, name="twos")

    async def play() -> None:
        async with Engine(two_envs.load(), registry=registry, sandbox=sandbox) as engine:
            await engine.prepared()

    asyncio.run(play())
    said = [text for text in caplog.messages if text.startswith("env 'other': ")]
    assert len(said) == (0 if words is None else 1), "a task that asks for the same is not told again"
    if words is not None:
        assert words in said[0]
        assert said[0].endswith("every episode of task 'two', and of those that ask for the same, will fail")


@pytest.mark.parametrize("refuses", [True, False])
def test_of_a_chain_it_is_said_when_the_first_one_refuses(
    two_envs: Build, registry: Registry, refuses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    chain = ChainProvider([Limitless(), Cloud()] if refuses else [Cloud(), Limitless()])

    async def play() -> None:
        async with Engine(two_envs.load(), registry=registry, sandbox=chain) as engine:
            await engine.prepared()

    asyncio.run(play())
    assert ["'limitless' cannot keep a limit of memory_mb" in text for text in caplog.messages] == [True] * refuses


@pytest.mark.parametrize(
    ("field", "isolation", "words"),
    [
        ({"cpu": 2, "sandbox_type": "bare"}, None, "cannot keep a limit of cpu (it keeps memory_mb)"),
        ({"sandbox_type": "limitless"}, "container", "isolation 'none' here, less than 'container' that is asked for"),
    ],
)
def test_it_is_said_of_a_provider_that_a_step_names(
    bundle: Build,
    steps: Any,
    registry: Registry,
    field: dict[str, Any],
    isolation: Any,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bundle.env()
    bundle.task({"type": "deploy_env", "env_id": "echo", **field}, steps.ask, steps.reply, name="big")

    async def play() -> None:
        async with Engine(bundle.load(), registry=registry, sandbox="cloud", isolation=isolation) as engine:
            await engine.prepared()

    asyncio.run(play())
    (said,) = [text for text in caplog.messages if text.startswith("env 'echo': ")]
    assert words in said
    assert "every episode of task 'big'" in said


def test_a_provider_that_does_not_start_says_so_and_is_closed(two_envs: Build, registry: Registry) -> None:
    async def play() -> None:
        provider = Cloud()
        provider.broken_start = SandboxUnavailable("the engine is down")
        with pytest.raises(SandboxUnavailable, match="engine is down"):
            async with Engine(two_envs.load(), registry=registry, sandbox=provider):
                raise AssertionError("it started")
        assert provider.calls == ["start", "close"]

    asyncio.run(play())


def test_an_episode_waits_for_the_preparation(two_envs: Build, registry: Registry) -> None:
    async def play() -> None:
        provider = Cloud()
        async with Engine(two_envs.load(), registry=registry, sandbox=provider) as engine:
            with pytest.raises(EpisodeFailed):
                await engine.episode(engine.bundle.task("all", 0)).start()
            assert provider.calls.index("prepare echo") < provider.calls.index("create echo")

    asyncio.run(play())


@pytest.mark.parametrize("where", ["artifact", "elsewhere"])
def test_the_image_of_a_sandbox_is_an_artifact_or_a_name(
    bundle: Build, steps: Any, registry: Registry, where: str
) -> None:
    bundle.env()
    bundle.artifact("box", Dockerfile="FROM scratch\n")
    name = "box" if where == "artifact" else "docker.example.com/team/box:1"
    sandbox = {"type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "container", "image": name, "port": 80}
    bundle.task(sandbox, steps.ask, steps.reply)

    async def play() -> None:
        provider = Cloud()
        async with Engine(bundle.load(), registry=registry, sandbox=provider) as engine:
            with pytest.raises(EpisodeFailed):
                await engine.episode(engine.bundle.task("all", 0)).start()
        assert provider.spec is not None
        image = provider.spec.image
        if where == "artifact":
            assert isinstance(image, BuildContext)
            assert image.path == bundle.path / "artifacts" / "box"
        else:
            assert image == ImageRef(name)

    asyncio.run(play())
