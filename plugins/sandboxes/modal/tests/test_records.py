"""What sandboxes carry about themselves, and the SDK's errors as errors of the contract."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import (
    BuildFailed,
    CreateFailed,
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxTimeout,
    SandboxUnavailable,
)
from agent_env.plugin.sandbox import ImageRef, SandboxSpec
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.modal import failures, tags
from agent_env.sandboxes.modal.provider import ModalProvider
from agent_env.sandboxes.modal.sdk import sdk
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


@given(
    labels=st.dictionaries(WORDS, st.text(max_size=20), max_size=3),
    port=st.none() | st.integers(1, 65535),
    workdir=st.none() | st.text(min_size=1, max_size=60).map(lambda text: f"/{text}"),
    ttl=st.floats(1, 86400),
)
def test_tags_come_back(labels: Mapping[str, str], port: int | None, workdir: str | None, ttl: float) -> None:
    written = tags.write("abc", "env", labels, ttl_s=ttl, port=port, workdir=workdir)
    found = tags.read("sb-1", written)
    assert found is not None
    assert (found.create_id, found.port, found.workdir) == ("abc", port, workdir)
    assert found.labels == {"agentenv": "modal", "create_id": "abc", "label": "env", **labels}
    assert abs(found.expires_at - found.created_at - ttl) < 0.01
    assert lease.alive(found.owner) is True
    assert found.record().owner_alive is True
    assert not found.may_reap(found.expires_at + 1e6, 0.0)
    assert tags.wanted(labels).items() <= written.items()


@given(st.text(max_size=30) | st.from_regex(r"\d{1,4}(\.[0-9a-zA-Z_-]{0,5}){0,4}", fullmatch=True))
def test_unreadable_tags_are_no_error(text: str) -> None:
    written = tags.write("abc", "env", {}, ttl_s=1, port=None, workdir=None)
    found = tags.read("sb-1", {**written, "agentenv_about": text, "agentenv_owner": text})
    assert found is not None
    assert found.record().owner_alive in {None, False}


@pytest.mark.parametrize("field", ["agentenv", "agentenv_id"])
def test_what_is_not_ours_is_not_read(field: str) -> None:
    written = tags.write("abc", "env", {}, ttl_s=1, port=None, workdir=None)
    del written[field]
    assert tags.read("sb-1", written) is None


def test_an_owner_that_died_or_is_elsewhere() -> None:
    written = tags.write("abc", "env", {}, ttl_s=1000, port=None, workdir=None)
    *places, pid, start = written["agentenv_owner"].split(".")
    assert pid == str(os.getpid())
    dead = tags.read("sb-1", {**written, "agentenv_owner": ".".join([*places, pid, str(int(start) + 1)])})
    assert dead is not None
    assert dead.may_reap(dead.created_at, None)
    far = tags.read("sb-1", {**written, "agentenv_owner": ".".join(["0" * 10, *places[1:], pid, start])})
    assert far is not None
    assert far.record().owner_alive is None
    assert not far.may_reap(far.created_at, None)
    assert far.may_reap(far.expires_at + 1, None)
    broken = tags.read("sb-1", {**written, "agentenv_owner": "nonsense"})
    assert broken is not None
    assert broken.record().owner_alive is None


@pytest.mark.parametrize(
    ("name", "text", "with_id", "kind"),
    [
        ("AuthError", "x", False, SandboxAuthFailed),
        ("PermissionDeniedError", "x", False, SandboxAuthFailed),
        ("ResourceExhaustedError", "Rate limit of concurrent creates", False, RateLimited),
        ("ResourceExhaustedError", "too much", False, RateLimited),
        ("ResourceExhaustedError", "Workspace spend limit reached", False, QuotaExceeded),
        ("NotFoundError", "x", True, SandboxNotFound),
        ("NotFoundError", "x", False, CreateFailed),
        ("ConflictError", "x", True, SandboxGone),
        ("InvalidError", "x", False, CreateFailed),
        ("InvalidError", "x", True, SandboxError),
        ("ServiceError", "x", False, SandboxUnavailable),
        ("InternalError", "x", False, SandboxUnavailable),
        ("ConnectionError", "x", False, SandboxUnavailable),
        ("TimeoutError", "x", False, SandboxTimeout),
        ("SandboxTimeoutError", "x", True, SandboxTimeout),
        ("SandboxTerminatedError", "x", True, SandboxGone),
        ("VersionError", "x", False, SandboxUnavailable),
        ("UnimplementedError", "x", False, SandboxError),
    ],
)
def test_errors_of_the_sdk(name: str, text: str, with_id: bool, kind: type[SandboxError]) -> None:
    error: Exception = getattr(sdk().errors, name)(text)
    mapped = failures.to_error(error, "env: create", "sb-1" if with_id else None)
    assert type(mapped) is kind
    assert str(mapped).startswith(f"env: create: {text}")
    assert mapped.provider == "modal"
    assert mapped.retryable is (kind.retryable and name != "VersionError")


def test_a_failed_build_and_other_errors() -> None:
    assert type(failures.to_error(sdk().errors.ImageBuildError("x", "im-1"), "env")) is BuildFailed
    assert type(failures.to_error(OSError("x"), "env")) is SandboxUnavailable
    assert type(failures.to_error(TimeoutError(), "env")) is SandboxTimeout
    same = SandboxGone("x")
    assert failures.to_error(same, "env") is same


def test_hooks_import_no_sdk() -> None:
    code = "import sys, agent_env.sandboxes.modal.hooks as h; h.agentenv_sandboxes(); print('modal' in sys.modules)"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    info: Any = importlib.import_module("agent_env.sandboxes.modal.hooks").agentenv_sandboxes()[0]
    assert re.fullmatch(r"[a-z0-9-]+", info.name)


@pytest.mark.skipif(
    not (os.environ.get("MODAL_TOKEN_ID") and os.environ.get("MODAL_TOKEN_SECRET")),
    reason="talks to Modal itself: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
)
@pytest.mark.timeout(900)
def test_live() -> None:
    """A server, a command, a file and an end on the real service; costs a few cents at most."""

    async def work() -> None:
        async with ModalProvider() as provider:
            spec = SandboxSpec(
                ImageRef("python:3.11-slim"),
                command=("python", "-m", "http.server", "18765", "--bind", "0.0.0.0"),
                health="/",
                ttl_s=600.0,
                startup_timeout=120.0,
                labels={"purpose": "smoke"},
                label="smoke",
            )
            async with await provider.create(spec, timeout=600) as box:
                assert (await box.exec(["python", "-c", "print(6)"])).stdout == "6\n"
                await box.write("/tmp/a/b.txt", b"words")
                assert await box.read("/tmp/a/b.txt") == b"words"
                assert [one.id async for one in provider.list({"purpose": "smoke"})] == [box.id]
            assert [one.id async for one in provider.list({"purpose": "smoke"})] == []

    asyncio.run(work())
