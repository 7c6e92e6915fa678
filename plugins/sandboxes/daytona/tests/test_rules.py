"""Rules that hold without a service: sizes, times, errors, and what is imported when."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import daytona
import pytest
from agent_env.errors import (
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxNotFound,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
    UsageError,
)
from agent_env.plugin.sandbox import ImageRef, Resources, SandboxSpec, TemplateRef
from agent_env.sandboxes.daytona import failures, plan
from agent_env.sandboxes.daytona.client import backoff, minutes
from agent_env.sandboxes.daytona.options import DaytonaOptions
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.sandboxes.daytona.size import size_of
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Image


def spec(image: Image | None = None, **changes: Any) -> SandboxSpec:
    return SandboxSpec(image=image or ImageRef("python:3.11-slim"), **changes)


@given(st.floats(min_value=0.001, max_value=10_000_000))
def test_minutes_never_end_a_sandbox_early_and_are_never_for_ever(seconds: float) -> None:
    assert minutes(seconds) >= 1
    assert seconds <= minutes(seconds) * 60 < seconds + 61


@given(st.integers(min_value=1, max_value=10_000), st.none() | st.floats(min_value=0, max_value=600))
def test_a_pause_is_never_shorter_than_asked_for(attempt: int, asked: float | None) -> None:
    pause = backoff(attempt, asked)
    assert pause > 0
    assert pause >= (asked or 0)
    assert pause <= (asked or 0) + 8


@given(st.integers(min_value=1, max_value=1 << 22))
def test_memory_is_kept_exactly_or_refused(megabytes: int) -> None:
    asked = spec(resources=Resources(memory_mb=megabytes))
    if megabytes % 1024 == 0:
        plan.refuse(asked)
        assert size_of(asked, DaytonaOptions()).memory == megabytes // 1024
    else:
        with pytest.raises(SandboxUnsupported, match="whole GiB"):
            plan.refuse(asked)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (spec(resources=Resources(cpu=0.5)), "ask for 1"),
        (spec(resources=Resources(cpu=2.5)), "ask for 3"),
        (spec(resources=Resources(disk_mb=1500)), "ask for 2048"),
        (spec(resources=Resources(pids=9)), "pids"),
        (spec(TemplateRef("mine"), resources=Resources(cpu=1.0)), "'mine' has its own"),
        (spec(isolation="vm"), "Daytona gives 'container'"),
        (spec(ttl_s=float("inf")), "finite"),
        (spec(ttl_s=0.0), "more than 0"),
    ],
)
def test_what_cannot_be_kept_is_refused(asked: SandboxSpec, words: str) -> None:
    with pytest.raises(SandboxUnsupported, match=words):
        plan.refuse(asked)


def test_sizes_of_the_options_count_where_nothing_is_asked_for() -> None:
    options = DaytonaOptions(cpu=2, memory_mb=4096)
    assert size_of(None, options).suffix == "-c2-m4"
    assert size_of(spec(resources=Resources(cpu=1.0)), options).suffix == "-c1-m4"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (daytona.DaytonaRateLimitError("Rate limit exceeded", 429, {"retry-after": "7"}), RateLimited),
        (daytona.DaytonaAuthenticationError("Invalid credentials", 401), SandboxAuthFailed),
        (daytona.DaytonaForbiddenError("Total CPU limit exceeded. Maximum allowed: 10.", 403), QuotaExceeded),
        (daytona.DaytonaForbiddenError("Organization is suspended: Depleted credits", 403), QuotaExceeded),
        (daytona.DaytonaForbiddenError("Access denied", 403), SandboxAuthFailed),
        (daytona.DaytonaNotFoundError("gone", 404), SandboxNotFound),
        (daytona.DaytonaConnectionTimeoutError("slow"), SandboxTimeout),
        (daytona.DaytonaTimeoutError("slow"), SandboxTimeout),
        (daytona.DaytonaQueueTimeoutError("no runner"), SandboxUnavailable),
        (daytona.DaytonaConnectionError("refused"), SandboxUnavailable),
        (daytona.DaytonaBadGatewayError("bad", 502), SandboxUnavailable),
        (daytona.DaytonaConflictError("busy", 409), failures.Conflict),
        (daytona.DaytonaBadRequestError("wrong", 400), SandboxUnsupported),
        (daytona.DaytonaError("503: upload", status_code=503), SandboxUnavailable),
        (daytona.DaytonaError("404: upload", status_code=404), SandboxNotFound),
        (daytona.DaytonaError("what"), SandboxError),
    ],
)
def test_errors_of_the_sdk_are_told_apart(error: Exception, kind: type[SandboxError]) -> None:
    found = failures.to_error(error, "create", "id-1")
    assert type(found) is kind
    assert str(found).startswith("create: ")
    assert found.provider == "daytona"
    assert isinstance(found, RateLimited) == (failures.retry_after(error) == 7)


def test_a_create_that_was_refused_made_nothing() -> None:
    assert not failures.lost(daytona.DaytonaRateLimitError("Rate limit exceeded", 429))
    assert failures.lost(daytona.DaytonaTimeoutError("slow"))
    assert failures.lost(daytona.DaytonaInternalServerError("broken", 500))


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(UsageError, match="lease_minutes"):
        DaytonaProvider(lease_minutes=0)


@pytest.mark.parametrize("by_option", [True, False])
def test_an_address_that_is_none_is_told(by_option: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with DaytonaProvider(**({"api_url": "daytona.example"} if by_option else {})):
            pass

    monkeypatch.setenv("DAYTONA_API_KEY", "dtn_key")
    monkeypatch.setenv("DAYTONA_API_URL", "http://127.0.0.1:9/api" if by_option else "daytona.example")
    with pytest.raises(UsageError, match=r"DAYTONA_API_URL.*http:// or https://, not 'daytona\.example'"):
        asyncio.run(play())


def test_the_sdk_is_not_imported_before_it_is_used() -> None:
    code = (
        "import sys, agent_env.sandboxes.daytona.hooks, agent_env.sandboxes.daytona.provider as p; "
        "p.DaytonaProvider(); sys.exit('daytona' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=100, check=False).returncode == 0
