"""The providers' options, as ``--sandbox-option e2b.<name>=<value>`` and ``--sandbox-option aenv.<name>=<value>``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class Options(BaseModel):
    """Options of both providers.

    Attributes:
        api_key: the key; better left to its environment variable.
        ports: ``private`` = a sandbox's port wants the token that AgentEnv sends along; ``public`` = it is open to
            whoever knows its address.
        network: for sandboxes that ask for nothing themselves: ``none`` = no way out, ``open`` = the internet.
        cpu: CPUs of templates that are built here; the service's default without it.
        memory_mb: memory of templates that are built here, in MiB; the service's default without it.
        lease_s: seconds after which the service ends a sandbox that nobody keeps alive any more. A living server
            renews it until the sandbox's own time is over.
        max_ttl_s: longest life of a sandbox that the account allows.
        creates_per_s: creates a second, for all processes of this machine together.
        burst: creates that may follow each other at once after a pause.
        max_creates: creates at the same time, for all processes of this machine together.
        request_timeout_s: seconds for one request to the service.
        build_timeout_s: seconds for building one template.
        ready_timeout_s: least seconds that a server is given to become ready, whatever is asked for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: SecretStr | None = None
    ports: Literal["private", "public"] = "private"
    network: Literal["none", "open"] = "none"
    cpu: int | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, ge=128)
    lease_s: float = Field(default=900.0, ge=5)
    max_ttl_s: float = Field(default=86400.0, gt=0)
    creates_per_s: float = Field(default=1.0, gt=0)
    burst: int = Field(default=1, gt=0)
    max_creates: int = Field(default=8, gt=0)
    request_timeout_s: float = Field(default=60.0, gt=0)
    build_timeout_s: float = Field(default=1800.0, gt=0)
    ready_timeout_s: float = Field(default=0.0, ge=0)


class E2BOptions(Options):
    """Options of the provider ``e2b``.

    Attributes:
        domain: domain of the service; default ``E2B_DOMAIN``, else E2B's own.
        api_url: address of the API where it is not under the domain; default ``E2B_API_URL``.
        sandbox_url: one address for all sandboxes, told apart by headers; default ``E2B_SANDBOX_URL``.
    """

    domain: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None


class AenvOptions(Options):
    """Options of the provider ``aenv``.

    Attributes:
        url: address of the server, such as ``http://10.0.0.5:8000``; default ``AENV_URL``, then ``E2B_API_URL``.
        sandbox_url: address of its sandboxes where it is another one; default ``E2B_SANDBOX_URL``, then ``url``.
        files: how a template's build gets files: ``inline`` = inside its commands, which every server takes;
            ``upload`` = by upload, where the server has that.
    """

    url: str | None = None
    sandbox_url: str | None = None
    files: Literal["inline", "upload"] = "inline"
    creates_per_s: float = Field(default=50.0, gt=0)
    burst: int = Field(default=20, gt=0)
