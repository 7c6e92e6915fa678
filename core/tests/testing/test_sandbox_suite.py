"""The checks of sandbox providers find what is broken, each the check that is for it.

The broken ones are the installed process provider with one thing done wrong.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest import SkipTest

import pytest
from agent_env.errors import SandboxError, SandboxNotFound, SandboxTimeout
from agent_env.plugin import SandboxInfo, hookimpl
from agent_env.plugin.sandbox import Capabilities, Resources
from agent_env.registry import Registry, default_registry
from agent_env.testing.checks import Target, run_checks
from agent_env.testing.sandbox_checks import SandboxCase, SandboxChecks
from agent_env.testing.sandbox_steps import cancelled_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULE = "sandbox_providers_of_a_test"
Provider: Any = default_registry().load("sandbox", "process")


def above(self: Any) -> Any:
    """The methods that a broken class replaces."""
    return cast("Any", super(type(self), self))


def with_methods(**methods: Any) -> Any:
    return type("Broken", (Provider,), methods)


def _subclass(name: str, base: Any, methods: dict[str, Any]) -> Any:
    return type(name, (base,), methods)


def boxed(**methods: Any) -> Any:
    """A provider whose sandboxes have other methods."""

    async def create(self: Any, spec: Any, *, timeout: float = 300.0) -> Any:
        box = await above(self).create(spec, timeout=timeout)
        box.__class__ = _subclass("BrokenSandbox", type(box), methods)
        return box

    return with_methods(create=create)


def respelled(**changes: Callable[[Any], Any]) -> Any:
    """A provider that creates something else than it is asked for."""

    async def create(self: Any, spec: Any, *, timeout: float = 300.0) -> Any:
        fields = {name: change(getattr(spec, name)) for name, change in changes.items()}
        return await above(self).create(replace(spec, **fields), timeout=timeout)

    return with_methods(create=create)


async def create_whatever_happens(self: Any, spec: Any, *, timeout: float = 300.0) -> Any:
    return await asyncio.shield(asyncio.ensure_future(above(self).create(spec, timeout=timeout)))


async def create_with_secret_labels(self: Any, spec: Any, *, timeout: float = 300.0) -> Any:
    return await above(self).create(replace(spec, labels={**spec.labels, **spec.secrets}), timeout=timeout)


async def always_running(self: Any) -> str:
    del self
    return "running"


async def exec_as_success(self: Any, argv: Any, **more: Any) -> Any:
    return replace(await above(self).exec(argv, **more), exit_code=0)


async def exec_without_stdin(self: Any, argv: Any, **more: Any) -> Any:
    return await above(self).exec(argv, **{**more, "stdin": None})


async def exec_uncut(self: Any, argv: Any, **more: Any) -> Any:
    return await above(self).exec(argv, **{**more, "max_output": 1 << 30})


async def exec_unlimited(self: Any, argv: Any, **more: Any) -> Any:
    """Gives up waiting, and lets the command run on."""
    task = asyncio.ensure_future(above(self).exec(argv, **{**more, "timeout": 600.0}))
    await asyncio.wait([task], timeout=more.get("timeout", 60.0))
    if not task.done():
        raise SandboxTimeout("too late")
    return task.result()


async def exec_through_a_shell(self: Any, argv: Any, **more: Any) -> Any:
    return await above(self).exec(["sh", "-c", " ".join(argv)], **more)


async def read_nothing(self: Any, path: str, *, max_bytes: int = 1 << 26) -> bytes:
    try:
        return bytes(await above(self).read(path, max_bytes=max_bytes))
    except OSError:
        return b""


async def write_text(self: Any, path: str, data: bytes, *, mode: int | None = None) -> None:
    await above(self).write(path, data.decode(errors="replace").encode(), mode=mode)


async def close_once(self: Any) -> None:
    if getattr(self, "was_closed", False):
        raise SandboxError("it is closed already")
    self.was_closed = True
    await above(self).close()


async def find_anything(self: Any, sandbox_id: str) -> Any:
    try:
        return await above(self).attach(sandbox_id)
    except SandboxNotFound:
        return object()


async def extend_nothing(self: Any, ttl_s: float) -> None:
    del self, ttl_s


@pytest.fixture
def check() -> Iterator[Callable[[Any, str], None]]:
    """Runs one check on a provider class."""
    state = Path(tempfile.mkdtemp(prefix="ae-"))
    module = types.ModuleType(MODULE)
    info = default_registry().info("sandbox", "process")
    sandboxes = [SandboxInfo("process", "A test's", f"{MODULE}:provider", info.options)]
    vars(module)["agentenv_sandboxes"] = hookimpl(lambda: sandboxes)
    sys.modules[MODULE] = module
    registry = Registry({"test:broken": module}, entry_points=False)

    def run(provider: Any, name: str) -> None:
        vars(module)["provider"] = provider
        options = {"state_dir": str(state), "isolation": "none"}
        checks = SandboxChecks()
        checks.case = SandboxCase("process", options, registry, cancels=3, startup_timeout=2.0)
        getattr(checks, f"test_{name}")()

    yield run
    del sys.modules[MODULE]
    shutil.rmtree(state)


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (with_methods(name="other"), "it_is_found_by_its_name"),
        (respelled(labels=lambda _: {}), "lifecycle"),
        (boxed(status=always_running), "lifecycle"),
        (respelled(env=lambda _: {}), "variables_and_secrets_reach_the_server"),
        (with_methods(create=create_with_secret_labels), "variables_and_secrets_reach_the_server"),
        (respelled(command=lambda _: None), "another_command"),
        (respelled(resources=lambda _: Resources()), "limits_are_kept_or_refused"),
        (respelled(isolation=lambda _: None), "isolation_is_kept_or_refused"),
        (respelled(network=lambda _: None), "no_network_means_none"),
        (with_methods(attach=find_anything), "an_id_that_is_none"),
        (boxed(close=close_once), "closing_twice"),
        (boxed(exec=exec_as_success), "exec_tells_how_a_command_ended"),
        (boxed(exec=exec_through_a_shell), "exec_takes_arguments_as_they_are"),
        (boxed(exec=exec_without_stdin), "exec_stdin"),
        (boxed(exec=exec_uncut), "exec_output_is_cut"),
        (boxed(exec=exec_unlimited), "exec_deadline_kills_everything"),
        (boxed(read=read_nothing), "files_that_cannot_be_read"),
        (boxed(write=write_text), "files_round_trip"),
        (respelled(labels=lambda labels: {**labels, "color": "blue"}), "listing_by_label"),
        (boxed(extend=extend_nothing), "extending"),
        (respelled(ttl_s=lambda _: 3600.0), "a_life_that_is_over"),
        (with_methods(create=create_whatever_happens), "create_cancelled_at_any_step"),
    ],
)
def test_what_is_broken_is_found(provider: Any, name: str, check: Callable[[Any, str], None]) -> None:
    with pytest.raises((AssertionError, SandboxError)):
        check(provider, name)


def test_capabilities_skip_with_a_reason(check: Callable[[Any, str], None]) -> None:
    without = with_methods(capabilities=Capabilities(isolation="none", exec=False, files=False, websocket=False))
    for name, reason in (
        ("exec_stdin", "runs no commands"),
        ("files_round_trip", "moves no files"),
        ("the_endpoint_speaks_websocket", "no WebSocket"),
        ("wrong_credentials", "no way to make"),
    ):
        with pytest.raises(SkipTest, match=reason):
            check(without, name)


def test_they_run_outside_pytest() -> None:
    case = SandboxChecks.case_of(Target(default_registry(), "sandbox", "process", options={"isolation": "none"}))
    assert (case.name, case.options, case.registry) == ("process", {"isolation": "none"}, None)

    class Few(SandboxChecks):
        @classmethod
        def standard_tests(cls) -> Any:
            every = super().standard_tests()
            return {name: every[name] for name in ("test_it_is_found_by_its_name", "test_an_id_that_is_none")}

    assert [result.status for result in run_checks(Few, case)] == ["passed", "passed"]


def test_sandboxes_of_other_machines_outlive_the_checks(tmp_path: Path) -> None:
    """An account is shared: a check may ask for no age that ends what somebody unseen made."""
    state = tmp_path / "s"
    box = state / "0123abcd" / "00000001"
    box.mkdir(parents=True)
    state.chmod(0o700)
    owner = {"host": "another", "boot": "b", "pidns": "n", "pid": 1, "start": 1}
    life = {"created_at": 1.0, "expires_at": time.time() + 3600}
    record = {"id": "0123abcd-00000001", "labels": {}, **life, "owner": owner}
    (box.parent / "owner.json").write_text(json.dumps(owner))
    (box / "meta.json").write_text(json.dumps({**record, "pid": 0, "start": 0}))
    checks = SandboxChecks()
    checks.case = SandboxCase("process", {"state_dir": str(state), "isolation": "none"})
    checks.test_live_owner_is_left_alone()
    assert box.is_dir()


def test_every_await_can_be_cancelled() -> None:
    async def work(seen: list[str]) -> str:
        for step in range(3):
            seen.append(f"before {step}")
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                seen.append(f"cancelled {step}")
                raise
        return "done"

    async def play() -> None:
        for step in range(3):
            seen: list[str] = []
            task = cancelled_at(work(seen), step)
            await asyncio.wait([task])
            assert task.cancelled()
            assert seen[-1] == f"cancelled {step}"
        assert await cancelled_at(work([]), 3) == "done"

    asyncio.run(play())
