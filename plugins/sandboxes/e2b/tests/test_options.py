"""Options, keys, addresses, errors, and what is imported when."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, cast

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
    SandboxUnsupported,
    UsageError,
)
from agent_env.registry import default_registry
from agent_env.sandboxes.e2b import sdk as sdks
from agent_env.sandboxes.e2b.failures import to_error
from agent_env.sandboxes.e2b.provider import AenvProvider, E2BProvider

if TYPE_CHECKING:
    from agent_env.sandboxes.e2b.sdk import SdkSandbox

KEY = "e2b_secret0123"


class Box:
    sandbox_id = "i123"
    traffic_access_token = "token-of-traffic"

    @staticmethod
    def get_host(port: int) -> str:
        return f"{port}-i123.e2b.app"


BOX = cast("SdkSandbox", Box())


def test_both_names_are_registered() -> None:
    names = default_registry().names("sandbox")
    assert {"e2b", "aenv"} <= set(names)


def test_a_key_is_asked_for_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("E2B_API_KEY", "AENV_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SandboxAuthFailed, match="E2B_API_KEY"):
        E2BProvider()
    with pytest.raises(SandboxAuthFailed, match="AENV_API_KEY"):
        AenvProvider(url="http://10.0.0.5:8000")
    with pytest.raises(UsageError, match="AENV_URL"):
        AenvProvider(api_key=KEY)
    with pytest.raises(UsageError, match="http://"):
        AenvProvider(api_key=KEY, url="10.0.0.5:8000")
    with pytest.raises(UsageError, match="colour"):
        E2BProvider(api_key=KEY, colour="red")


def test_keys_come_from_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", "of-e2b")
    assert AenvProvider(url="http://a:1").service.key == "of-e2b"
    monkeypatch.setenv("AENV_API_KEY", "of-aenv")
    monkeypatch.setenv("AENV_URL", "http://b:2/")
    provider = AenvProvider()
    assert (provider.service.key, provider.service.api_url) == ("of-aenv", "http://b:2")
    assert E2BProvider().service.key == "of-e2b"


def test_no_key_in_any_text() -> None:
    provider = E2BProvider(api_key=KEY)
    assert KEY not in repr((provider, provider.options, provider.service, provider.service.account))


def test_addresses() -> None:
    cloud = E2BProvider(api_key=KEY).service.endpoint(BOX, 8000)
    assert (cloud.url, dict(cloud.headers)) == (
        "https://8000-i123.e2b.app",
        {"e2b-traffic-access-token": "token-of-traffic"},
    )
    hosted = AenvProvider(api_key=KEY, url="http://a:1", sandbox_url="http://gate:2/").service.endpoint(BOX, 8000)
    assert hosted.url == "http://gate:2"
    assert dict(hosted.headers) == {
        "e2b-traffic-access-token": "token-of-traffic",
        "E2b-Sandbox-Id": "i123",
        "E2b-Sandbox-Port": "8000",
    }


def made(raised: Exception | tuple[str | int, str]) -> Exception:
    """An error of the SDK by class, or by HTTP status."""
    if isinstance(raised, Exception):
        return raised
    kind, text = raised
    errors = sdks.sdk().errors
    if isinstance(kind, int):
        return cast("Exception", errors.SandboxException(f"{kind}: {text}", status_code=kind))
    return cast("Exception", getattr(errors, kind)(text))


@pytest.mark.parametrize(
    ("raised", "expected", "retryable"),
    [
        (("SandboxNotRunningException", "x"), SandboxGone, True),
        (("SandboxUnreachableException", "x"), SandboxUnavailable, True),
        (("TimeoutException", "x"), SandboxTimeout, True),
        (("AuthenticationException", "x"), SandboxAuthFailed, False),
        (("RateLimitException", "slow down"), RateLimited, True),
        (("RateLimitException", "the maximum number of concurrent sandboxes"), QuotaExceeded, True),
        (("ServiceBusyException", "x"), SandboxUnavailable, True),
        (("SandboxNotFoundException", "x"), SandboxNotFound, False),
        (("FileUploadException", "x"), BuildFailed, False),
        ((403, "no"), SandboxAuthFailed, False),
        ((403, "quota used up"), QuotaExceeded, True),
        ((405, "no"), SandboxUnsupported, False),
        ((500, "no"), SandboxUnavailable, True),
        ((400, "no"), CreateFailed, False),
        (ConnectionRefusedError("x"), SandboxUnavailable, True),
        (TimeoutError(), SandboxTimeout, True),
        (RuntimeError("x"), SandboxError, False),
    ],
)
def test_errors_of_the_sdk_are_told_apart(
    raised: Exception | tuple[str | int, str], expected: type[SandboxError], retryable: bool
) -> None:
    service = E2BProvider(api_key=KEY).service
    error = to_error(made(raised), "doing", service, "i123")
    assert type(error) is expected
    assert (error.retryable, error.provider) == (retryable, "e2b")
    assert KEY not in str(error)


def test_the_sdk_is_imported_when_it_is_used_and_the_stand_in_never() -> None:
    code = (
        "import sys; import agent_env.sandboxes.e2b.hooks as hooks; hooks.agentenv_sandboxes(); "
        "assert 'pydantic' not in sys.modules; "
        "import agent_env.sandboxes.e2b.provider as p; p.E2BProvider(api_key='e2b_x'); "
        "print([m for m in ('e2b', 'starlette', 'agent_env.sandboxes.e2b.testing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
