"""The provider's options, as ``--sandbox-option process.<name>=<value>`` gives them."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Literal

from agent_env.sandboxes.process.limits import LEAST_CPU
from pydantic import BaseModel, ConfigDict, Field


class ProcessOptions(BaseModel):
    """Options of the process provider.

    Attributes:
        isolation: ``auto`` = bubblewrap where it works, else plain processes; ``namespace`` = bubblewrap or refuse to
            start; ``none`` = plain processes. What a sandbox really got is its ``isolation``.
        state_dir: folder for the sandboxes' private folders; short, because a unix socket's path holds 107 bytes.
            Default: ``AGENTENV_STATE_DIR``, else a folder of the user in the temp directory.
        cache_dir: folder for built Python environments. Default: ``AGENTENV_CACHE_DIR``, else the user's cache.
        file_mb: largest file that a process may write, in MiB.
        open_files: most open files of a process.
        cpu: CPUs of a sandbox that asks for none itself; no limit without it.
        memory_mb: memory of a sandbox that asks for none itself, in MiB; no limit without it.
        pids: most processes of a sandbox that asks for none itself; no limit without it.
        cpu_s: CPU seconds after which a process is killed: a backstop, not a scheduler.
        log_kb: size to which a sandbox's log is held, in KiB.
        grace_s: seconds between SIGTERM and SIGKILL when a sandbox is closed; 0 = SIGKILL at once.
        readable: further paths that isolated envs may read.
        build_timeout_s: seconds for building one Python environment.
        prefork: whether envs that ask for ``prefork`` get it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    isolation: Literal["auto", "none", "namespace"] = "auto"
    state_dir: Path | None = None
    cache_dir: Path | None = None
    file_mb: int = Field(default=1024, gt=0)
    open_files: int = Field(default=4096, gt=15)
    cpu: float | None = Field(default=None, ge=LEAST_CPU, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, ge=6)
    pids: int | None = Field(default=None, gt=1)
    cpu_s: int = Field(default=86400, gt=0)
    log_kb: int = Field(default=1024, gt=0)
    grace_s: float = Field(default=0.0, ge=0.0, le=30.0)
    readable: tuple[Path, ...] = ()
    build_timeout_s: float = Field(default=1800.0, gt=0)
    prefork: bool = True
