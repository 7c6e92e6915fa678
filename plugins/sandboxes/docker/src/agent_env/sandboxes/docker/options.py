"""The provider's options, as ``--sandbox-option docker.<name>=<value>`` gives them."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Literal

from agent_env.sandboxes.docker.plan import LEAST_CPU
from pydantic import BaseModel, ConfigDict, Field


class DockerOptions(BaseModel):
    """Options of the Docker provider.

    Attributes:
        host: address of the engine, such as ``unix:///var/run/docker.sock``, ``tcp://10.0.0.5:2376`` or
            ``ssh://me@box``. Default: Docker's own rules (``DOCKER_CONTEXT``, ``DOCKER_HOST``, the usual sockets).
        endpoint: how a container's server is reached. ``socket`` = a unix socket in a folder that server and
            container share, no network at all; ``tunnel`` = through the connection to the engine, no network at all;
            ``port`` = a port published on 127.0.0.1, on one bridge without traffic between containers;
            ``auto`` = ``socket`` when the engine runs on this machine, else ``tunnel``.
        network: for sandboxes that ask for nothing themselves: ``none`` = no way out, ``open`` = through the bridge.
        cpu: CPUs of a sandbox that asks for none itself; no limit without it.
        memory_mb: memory of a sandbox that asks for none itself; no limit without it.
        pids: most processes of a sandbox that asks for none itself.
        read_only: whether the root file system of envs is read-only, with a writable /tmp. ``auto`` = when the env's
            agentenv.toml has ``[docker] read_only = true``.
        runtime: OCI runtime of the engine, such as ``runsc``.
        max_starts: containers that are started at the same time; further ones wait.
        log_kb: size to which a container's log is held, in KiB.
        build_timeout_s: seconds for building or pulling one image.
        state_dir: folder for shared sockets and locks; short, because a unix socket's path holds 107 bytes.
            Default: ``AGENTENV_STATE_DIR`` with ``-docker`` behind it, else a folder of the user in the temp directory.
        guard: keep a small process that ends this server's containers at once when the server is killed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = None
    endpoint: Literal["auto", "socket", "tunnel", "port"] = "auto"
    network: Literal["none", "open"] = "none"
    cpu: float | None = Field(default=None, ge=LEAST_CPU)
    memory_mb: int | None = Field(default=None, ge=6)
    pids: int = Field(default=512, gt=1)
    read_only: Literal["auto", "yes", "no"] = "auto"
    runtime: str | None = None
    max_starts: int = Field(default=6, gt=0)
    log_kb: int = Field(default=1024, ge=16)
    build_timeout_s: float = Field(default=1800.0, gt=0)
    state_dir: Path | None = None
    guard: bool = True
