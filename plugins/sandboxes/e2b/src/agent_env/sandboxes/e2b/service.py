"""Which service a provider talks to, and how its sandboxes are reached."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxAuthFailed, UsageError
from agent_env.plugin.sandbox import Endpoint
from agent_env.sandboxes.e2b.sdk import OLDEST

if TYPE_CHECKING:
    from agent_env.sandboxes.e2b.options import AenvOptions, E2BOptions
    from agent_env.sandboxes.e2b.sdk import SdkSandbox

TOKEN_HEADER = "e2b-traffic-access-token"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Service:
    """A service that speaks E2B's API.

    Attributes:
        name: the provider's name.
        address: of the API, for messages.
        key_hint: where the key comes from, for messages.
        key: the key.
        domain: domain of the service, or `None`.
        api_url: address of the API, or `None` = under the domain.
        sandbox_url: address of all sandboxes, told apart by headers, or `None` = each has its own under the domain.
        idempotent: a create that is sent twice with one key makes one sandbox.
        oldest_sdk: the oldest version of the SDK that will do.
    """

    name: str
    address: str
    key_hint: str
    key: str = field(repr=False)
    domain: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None
    idempotent: bool = True
    oldest_sdk: str = "2.63"

    def params(self, request_timeout: float) -> dict[str, Any]:
        """The SDK's connection options."""
        params: dict[str, Any] = {
            "api_key": self.key,
            "domain": self.domain,
            "api_url": self.api_url,
            "sandbox_url": self.sandbox_url,
            "request_timeout": request_timeout,
            "debug": False,
        }
        return {name: value for name, value in params.items() if value is not None}

    @property
    def account(self) -> str:
        """A name of the account that tells nothing about its key."""
        return hashlib.sha256(f"{self.address}\0{self.key}".encode()).hexdigest()[:16]

    def endpoint(self, box: SdkSandbox, port: int) -> Endpoint:
        """How to reach a port of a sandbox."""
        headers: dict[str, str] = {}
        if box.traffic_access_token:
            headers[TOKEN_HEADER] = box.traffic_access_token
        if self.sandbox_url is None:
            return Endpoint(url=f"https://{box.get_host(port)}", headers=headers)
        headers |= {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": str(port)}
        return Endpoint(url=self.sandbox_url.rstrip("/"), headers=headers)


def e2b_service(options: E2BOptions) -> Service:
    """The E2B cloud.

    Raises:
        SandboxAuthFailed: there is no key.
    """
    hint = "the key comes from E2B_API_KEY or the option e2b.api_key"
    domain = options.domain or os.environ.get("E2B_DOMAIN") or "e2b.app"
    api_url = options.api_url or os.environ.get("E2B_API_URL")
    return Service(
        name="e2b",
        address=api_url or f"https://api.{domain}",
        key_hint=hint,
        key=_key(options.api_key.get_secret_value() if options.api_key else None, ("E2B_API_KEY",), "e2b", hint),
        domain=domain,
        api_url=api_url,
        sandbox_url=options.sandbox_url or os.environ.get("E2B_SANDBOX_URL"),
    )


def aenv_service(options: AenvOptions) -> Service:
    """A self-hosted server.

    Raises:
        UsageError: its address is not known; SandboxAuthFailed: there is no key.
    """
    url = options.url or os.environ.get("AENV_URL") or os.environ.get("E2B_API_URL")
    if url is None:
        raise UsageError(
            "sandbox aenv: where is the server? Set AENV_URL or the option aenv.url, such as http://10.0.0.5:8000"
        )
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"sandbox aenv: the server's address must start with http:// or https://, not {url!r}")
    hint = "the key is the server's AENV_API_KEY; it comes from AENV_API_KEY, E2B_API_KEY or the option aenv.api_key"
    given = options.api_key.get_secret_value() if options.api_key else None
    return Service(
        name="aenv",
        address=url,
        key_hint=hint,
        key=_key(given, ("AENV_API_KEY", "E2B_API_KEY"), "aenv", hint),
        api_url=url.rstrip("/"),
        sandbox_url=options.sandbox_url or os.environ.get("E2B_SANDBOX_URL") or url,
        idempotent=False,
        oldest_sdk=OLDEST,
    )


def _key(given: str | None, variables: tuple[str, ...], name: str, hint: str) -> str:
    key = given or next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
    if not key:
        raise SandboxAuthFailed(f"sandbox {name}: there is no API key; {hint}", provider=name)
    return key
