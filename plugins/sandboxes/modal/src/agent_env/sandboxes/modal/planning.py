"""From a `SandboxSpec` to what Modal is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.building.plan import need_command
from agent_env.sandboxes.modal import tags
from agent_env.sandboxes.modal.failures import NAME
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandbox import Isolation, SandboxSpec
    from agent_env.sandboxes.modal.images import Built
    from agent_env.sandboxes.modal.options import ModalOptions

MAX_TTL_S: Final = 86400.0
_LEAST_MEMORY_MB: Final = 128
_RANK: Mapping[Isolation, int] = {"none": 0, "shared": 1, "namespace": 2, "container": 3, "vm": 4}


@dataclass(frozen=True, slots=True)
class Order:
    """One create.

    Attributes:
        command: argv, empty = the image's own.
        port: TCP port of the server inside, `None` when there is none.
        workdir: where relative paths start, `None` = it is not known.
        arguments: keywords of the SDK's create.
    """

    command: tuple[str, ...]
    port: int | None
    workdir: str | None
    arguments: dict[str, Any]


def isolation_of(options: ModalOptions) -> Isolation:
    """How far sandboxes are from their host."""
    return "vm" if options.runtime == "vm" else "container"


def refuse(spec: SandboxSpec, options: ModalOptions) -> None:
    """Raise for what is asked for and cannot be kept.

    Raises:
        SandboxUnsupported: it says what.
    """
    what = ""
    missing = [name for name in ("disk_mb", "pids") if getattr(spec.resources, name) is not None]
    memory = spec.resources.memory_mb
    if missing:
        what = f"Modal sandboxes keep no limit of {', '.join(missing)}; leave it out, or take another provider"
    elif memory is not None and memory < _LEAST_MEMORY_MB:
        what = f"memory_mb {memory} is below the {_LEAST_MEMORY_MB} MiB that a Modal sandbox has at least"
    elif not 0 < spec.ttl_s <= MAX_TTL_S:
        what = (
            f"a life of {spec.ttl_s:g} s was asked for; a Modal sandbox lives at most {MAX_TTL_S:g} s and its life "
            "cannot be extended, so the whole episode has to fit in"
        )
    elif spec.isolation is not None and _RANK[spec.isolation] > _RANK[isolation_of(options)]:
        what = (
            f"isolation {spec.isolation!r} was asked for and this sandbox would have {isolation_of(options)!r}; "
            "the option modal.runtime=vm gives virtual machines"
        )
    if what:
        raise SandboxUnsupported(f"{spec.label}: {what}", provider=NAME)


def commanded(spec: SandboxSpec) -> bool:
    """Whether a command is given in place of the image's own."""
    return spec.command is not None or not spec.serves


def order(spec: SandboxSpec, built: Built, options: ModalOptions, create_id: str) -> Order:
    """What to ask for.

    Raises:
        SandboxUnsupported: nothing says how to start the server.
    """
    if not spec.serves:
        command: tuple[str, ...] = ("sleep", str(math.ceil(spec.ttl_s) + 60))
        port = None
    else:
        own = (
            () if built.own_command else need_command(built.plan, spec.label, provider=NAME) if not spec.command else ()
        )
        command = spec.command or own
        port = built.plan.port or spec.port
    server = {"MCP_HOST": "0.0.0.0", "MCP_PORT": str(port), "ENVIRONMENT_NAME": spec.label} if port else {}
    arguments: dict[str, Any] = {
        "image": built.image,
        "name": tags.name_of(create_id),
        "tags": tags.write(create_id, spec.label, spec.labels, ttl_s=spec.ttl_s, port=port, workdir=built.plan.workdir),
        "env": {**server, **spec.env},
        "timeout": math.ceil(spec.ttl_s),
        "region": options.region,
        "cloud": options.cloud,
        "runtime": options.runtime,
        **_limits(spec, options),
        **_network(spec, options, port),
    }
    if spec.secrets:
        arguments["secrets"] = [sdk().modal.Secret.from_dict(dict(spec.secrets))]
    if options.idle_timeout_s:
        arguments["idle_timeout"] = min(options.idle_timeout_s, arguments["timeout"])
    return Order(command=command, port=port, workdir=built.plan.workdir, arguments=arguments)


def _limits(spec: SandboxSpec, options: ModalOptions) -> dict[str, Any]:
    """A single number would only be what is reserved; the pair is also a limit."""
    cpu, memory = spec.resources.cpu or options.cpu, spec.resources.memory_mb or options.memory_mb
    limits: dict[str, Any] = {}
    if cpu is not None:
        limits["cpu"] = (cpu, cpu)
    if memory is not None:
        limits["memory"] = (memory, memory)
    return limits


def _network(spec: SandboxSpec, options: ModalOptions, port: int | None) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if (spec.network or options.network) == "none":
        if port is None:
            return {"block_network": True}
        # A blocked network takes no connections either; an empty list of what may be reached blocks the way out only.
        asked["outbound_cidr_allowlist"] = []
        asked["outbound_domain_allowlist"] = []
    if port is not None:
        if options.access == "tunnel":
            asked["encrypted_ports"] = [port]
        if options.inbound_cidrs:
            asked["inbound_cidr_allowlist"] = list(options.inbound_cidrs)
    return asked
