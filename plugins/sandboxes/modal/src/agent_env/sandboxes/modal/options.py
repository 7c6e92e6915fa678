"""The provider's options, as ``--sandbox-option modal.<name>=<value>`` gives them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _listed(value: object) -> object:
    """A command line gives a list as text with commas."""
    return tuple(item.strip() for item in value.split(",") if item.strip()) if isinstance(value, str) else value


class ModalOptions(BaseModel):
    """Options of the Modal provider. Credentials come from Modal's own settings, never from an option.

    Attributes:
        app: the Modal App that sandboxes belong to; made when it does not exist.
        environment: the Modal environment of the App; default the one that Modal's settings name.
        access: how an env's server is reached. ``token`` = by a connect token that every request carries;
            ``tunnel`` = by a TLS tunnel at a random host name, open to whoever knows it.
        inbound_cidrs: the only networks that may connect to envs, such as ``203.0.113.0/24``; everybody without it.
        network: for sandboxes that ask for nothing themselves: ``none`` = no way out, ``open`` = the internet.
        cpu: cores of a sandbox that asks for none itself, reserved and not exceeded; Modal's own default without it.
        memory_mb: memory of a sandbox that asks for none itself, in MiB, reserved and not exceeded.
        region: where sandboxes run, such as ``us-east``; anywhere without it.
        cloud: whose machines they run on, such as ``aws``; anyone's without it.
        runtime: Modal's runtime of sandboxes; Modal's choice without it.
        idle_timeout_s: seconds without life from this server after which Modal ends a sandbox: what is left of a
            server that was killed costs no more than this. 0 = only the sandbox's own life ends it.
        build_timeout_s: seconds for building one image.
        max_creates: creates under way at the same time, over all processes of this machine.
        create_rate: creates begun in a second, over all processes of this machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    app: str = Field(default="agentenv", pattern=r"^[A-Za-z0-9._-]{1,63}$")
    environment: str | None = None
    access: Literal["token", "tunnel"] = "token"
    inbound_cidrs: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    network: Literal["none", "open"] = "none"
    cpu: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, ge=128)
    region: str | None = None
    cloud: str | None = None
    runtime: Literal["gvisor", "vm"] | None = None
    idle_timeout_s: int = Field(default=900, ge=0)
    build_timeout_s: float = Field(default=1800.0, gt=0)
    max_creates: int = Field(default=16, gt=0)
    create_rate: float = Field(default=5.0, gt=0)
