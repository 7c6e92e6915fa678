"""From a `SandboxSpec` to what Daytona is asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.sandbox import TemplateRef
from agent_env.sandboxes.daytona import labels
from agent_env.sandboxes.daytona.client import minutes
from agent_env.sandboxes.daytona.sdk import NAME
from agent_env.sandboxes.daytona.size import GIB, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandbox import Isolation, SandboxSpec
    from agent_env.sandboxes.daytona.images import Ready
    from agent_env.sandboxes.daytona.labels import About
    from agent_env.sandboxes.daytona.options import DaytonaOptions

LIMITS = frozenset({"cpu", "memory_mb", "disk_mb"})
_RANK: Mapping[Isolation, int] = {"none": 0, "shared": 1, "namespace": 2, "container": 3, "vm": 4}


def refuse(spec: SandboxSpec) -> None:
    """Raise for what is asked for and cannot be kept.

    Raises:
        SandboxUnsupported: it says what.
    """
    asked, what = spec.resources, ""
    if asked.pids is not None:
        what = "a limit of processes (pids) cannot be kept by Daytona"
    elif asked.cpu is not None and (asked.cpu != int(asked.cpu) or asked.cpu < 1):
        what = f"cpu {asked.cpu:g}: Daytona counts whole CPUs; ask for {max(1, math.ceil(asked.cpu))}"
    elif asked.memory_mb is not None and not _whole(asked.memory_mb):
        what = f"memory_mb {asked.memory_mb}: Daytona counts whole GiB; ask for {_next(asked.memory_mb)}"
    elif asked.disk_mb is not None and not _whole(asked.disk_mb):
        what = f"disk_mb {asked.disk_mb}: Daytona counts whole GiB; ask for {_next(asked.disk_mb)}"
    elif isinstance(spec.image, TemplateRef) and (asked.cpu or asked.memory_mb or asked.disk_mb):
        what = f"snapshot {spec.image.id!r} has its own cpu, memory and disk; ask for none, or name an image"
    elif spec.isolation is not None and _RANK[spec.isolation] > _RANK["container"]:
        what = f"isolation {spec.isolation!r} was asked for and Daytona gives 'container'"
    elif not (math.isfinite(spec.ttl_s) and spec.ttl_s > 0):
        what = f"ttl_s {spec.ttl_s:g}: it must be finite and more than 0"
    if what:
        raise SandboxUnsupported(f"{spec.label}: {what}", provider=NAME)


def _whole(megabytes: int) -> bool:
    return megabytes >= GIB and megabytes % GIB == 0


def _next(megabytes: int) -> int:
    return max(1, math.ceil(megabytes / GIB)) * GIB


def about(spec: SandboxSpec, ready: Ready, options: DaytonaOptions) -> About:
    """How the sandbox will be used.

    Raises:
        SandboxUnsupported: nothing says how to start its server.
    """
    start = ready.start
    workdir = (start.workdir if start is not None else None) or ""
    if not spec.serves:
        return labels.About(workdir=workdir)
    port = options.port or (start.port if start is not None else None) or spec.port
    if spec.command is None and ready.command is None and not ready.runs_itself:
        raise SandboxUnsupported(
            f"{spec.label}: Daytona does not run the command of {ready.title}, and nothing else says how to start its "
            "server; name its command, or build it from a Dockerfile with a CMD",
            provider=NAME,
        )
    ours = spec.command is not None or not ready.runs_itself
    return labels.About(serves=True, port=port, workdir=workdir, ours=ours)


def environment(spec: SandboxSpec, about: About) -> dict[str, str]:
    """Variables of the sandbox."""
    env: dict[str, str] = {}
    if spec.serves:
        env = {"MCP_HOST": "0.0.0.0", "MCP_PORT": str(about.port), "ENVIRONMENT_NAME": spec.label}
    return {**env, **spec.env, **spec.secrets}


def params(
    sdk: Any,
    spec: SandboxSpec,
    ready: Ready,
    about: About,
    options: DaytonaOptions,
    *,
    create_id: str,
    marks: dict[str, str],
) -> Any:
    """The SDK's parameters of a create.

    Nothing of the sandbox outlives its lease: auto-stop is off, because traffic to a server is no activity in
    Daytona's eyes, and the time to live is always set, whatever state the sandbox is in.
    """
    common: dict[str, Any] = {
        "name": labels.name_of(create_id),
        "labels": marks,
        "env_vars": environment(spec, about),
        "auto_stop_interval": 0,
        "ephemeral": True,
        "ttl_minutes": minutes(min(spec.ttl_s, options.lease_minutes * 60)),
        "public": False,
        "network_block_all": (spec.network or options.network) == "none" or None,
    }
    if ready.snapshot is not None:
        return sdk.CreateSandboxFromSnapshotParams(snapshot=ready.snapshot, **common)
    return sdk.CreateSandboxFromImageParams(
        image=ready.image, resources=size_of(spec, options).resources(sdk), **common
    )
