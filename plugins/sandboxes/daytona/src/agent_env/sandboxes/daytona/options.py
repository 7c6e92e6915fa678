"""The provider's options, as ``--sandbox-option daytona.<name>=<value>`` gives them."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DaytonaOptions(BaseModel):
    """Options of the Daytona provider.

    Attributes:
        api_key_var: environment variable that holds the API key; the key itself is no option, so that it is neither
            in a shell's history nor in a list of processes.
        api_url: address of the API, ending in ``/api``. Default: ``DAYTONA_API_URL``, else Daytona's own cloud.
        organization_id: organization to use with a token that knows several. Default: ``DAYTONA_ORGANIZATION_ID``.
        target: region. Default: ``DAYTONA_TARGET``, else the organization's own.
        cpu: CPUs of a sandbox that asks for none itself; the account's default without it.
        memory_mb: memory of a sandbox that asks for none itself, a multiple of 1024.
        disk_mb: disk of a sandbox that asks for none itself, a multiple of 1024.
        network: for sandboxes that ask for nothing themselves: ``none`` = no way out, ``open`` = what the account has.
        port: TCP port of the envs' servers. Default: what the env exposes, else what the server of the bundle asks for.
        lease_minutes: minutes after which Daytona ends a sandbox whose owner stopped renewing it, because it was
            killed or lost its network.
        creates_per_s: creates that are begun a second by all processes of this user on this machine.
        max_creates: creates under way at the same time by all processes of this user on this machine.
        request_timeout_s: seconds for one request, its repetitions included.
        build_timeout_s: seconds for building one snapshot.
        pace_dir: folder of the files by which processes share the pace. Default: one of the user in the temp directory.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key_var: str = "DAYTONA_API_KEY"
    api_url: str | None = None
    organization_id: str | None = None
    target: str | None = None
    cpu: int | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, ge=1024, multiple_of=1024)
    disk_mb: int | None = Field(default=None, ge=1024, multiple_of=1024)
    network: Literal["none", "open"] = "open"
    port: int | None = Field(default=None, gt=0, lt=65536)
    lease_minutes: int = Field(default=30, ge=2)
    creates_per_s: float = Field(default=5.0, gt=0)
    max_creates: int = Field(default=20, gt=0)
    request_timeout_s: float = Field(default=60.0, gt=0)
    build_timeout_s: float = Field(default=1800.0, gt=0)
    pace_dir: Path | None = None
