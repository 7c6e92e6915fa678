"""From a `SandboxSpec` to what the engine is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_env.errors import SandboxUnsupported
from agent_env.sandboxes.docker.labels import About

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandbox import Isolation, SandboxSpec
    from agent_env.sandboxes.docker.images import Facts
    from agent_env.sandboxes.docker.options import DockerOptions

Way = Literal["socket", "tunnel", "port"]

NETWORK = "agentenv"
"""The one bridge that containers share; traffic between them is off."""
SHARED = "/run/agentenv"
"""Where the shared folder stands in a container."""
LEAST_CPU = 0.01
"""Less is refused by kernels."""
_IDLE_MOST_S = 7 * 86400
_RANK: Mapping[Isolation, int] = {"none": 0, "shared": 1, "namespace": 2, "container": 3, "vm": 4}
_TMP_OPTIONS = "rw,nosuid,nodev,mode=1777,size=256m"


@dataclass(frozen=True, slots=True)
class Machine:
    """What an engine offers.

    Attributes:
        way: how its containers are reached.
        local: it runs on this machine, with this machine's files.
        limits: the limits that it can keep.
        direct_uid: whose sockets this process may connect to; `None` = everybody's.
    """

    way: Way
    local: bool
    limits: frozenset[str]
    direct_uid: int | None


def refuse(spec: SandboxSpec, options: DockerOptions, machine: Machine) -> None:
    """Raise for what is asked for and cannot be kept.

    Raises:
        SandboxUnsupported: it says what.
    """
    what = ""
    missing = [
        name
        for name in ("cpu", "memory_mb", "disk_mb", "pids")
        if getattr(spec.resources, name) is not None and name not in machine.limits
    ]
    if missing:
        what = f"the limits asked for ({', '.join(missing)}) cannot be kept by this Docker engine"
    elif spec.resources.memory_mb is not None and spec.resources.memory_mb < 6:
        what = f"memory_mb {spec.resources.memory_mb} is below the 6 MiB that a container needs"
    elif spec.resources.cpu is not None and spec.resources.cpu < LEAST_CPU:
        what = f"cpu {spec.resources.cpu:g} is below the {LEAST_CPU:g} of a CPU that an engine can give"
    elif spec.isolation is not None and _RANK[spec.isolation] > _RANK["container"] and options.runtime is None:
        what = (
            f"isolation {spec.isolation!r} was asked for and containers would give 'container'; "
            "name a runtime of virtual machines with the option docker.runtime"
        )
    if what:
        raise SandboxUnsupported(f"{spec.label}: {what}", provider="docker")


def about(spec: SandboxSpec, facts: Facts, machine: Machine, way: Way, folder: str, network: str) -> About:
    """How the container will be used; ``folder`` is the one it shares with this process."""
    if not spec.serves:
        return About(label=spec.label, serves=False)
    port = facts.settings.port or (facts.ports[0] if len(facts.ports) == 1 else spec.port)
    direct = way == "socket" and (network == "host" or machine.direct_uid in {None, facts.uid})
    return About(
        label=spec.label, serves=True, way=way, uds=direct, port=port, folder=folder if way == "socket" else ""
    )


def idle_commands(ttl_s: float) -> list[list[str]]:
    """Commands that do nothing for as long as a sandbox lives at most; the first that the image has is taken."""
    seconds = str(int(max(ttl_s, _IDLE_MOST_S)))
    return [["sleep", seconds], ["python3", "-I", "-S", "-c", f"import time; time.sleep({seconds})"]]


def container(
    spec: SandboxSpec,
    facts: Facts,
    about: About,
    options: DockerOptions,
    *,
    labels: Mapping[str, str],
    network: Literal["none", "open", "host"],
    init: bool,
    idle: list[str],
) -> dict[str, Any]:
    """The body of ``containers/create``.

    Raises:
        SandboxUnsupported: nothing says what to run.
    """
    body: dict[str, Any] = {
        "Image": facts.id,
        "Labels": dict(labels),
        "Env": [f"{name}={value}" for name, value in _environment(spec, about).items()],
        "HostConfig": _host(spec, facts, about, options, network=network, init=init),
        "AttachStdout": False,
        "AttachStderr": False,
    }
    if not spec.serves:
        body["Entrypoint"], body["Cmd"] = idle, []
    elif spec.command is not None:
        body["Entrypoint"], body["Cmd"] = list(spec.command), []
    elif not facts.runs:
        raise SandboxUnsupported(
            f"{spec.label}: the image {facts.name} has neither CMD nor ENTRYPOINT, so nothing says how to start its "
            'server; add CMD ["python", "server.py"] to its Dockerfile',
            provider="docker",
        )
    if about.way == "port":
        body["ExposedPorts"] = {f"{about.port}/tcp": {}}
    return body


def _environment(spec: SandboxSpec, about: About) -> dict[str, str]:
    env: dict[str, str] = {}
    if spec.serves:
        env = {"MCP_HOST": "0.0.0.0", "MCP_PORT": str(about.port), "ENVIRONMENT_NAME": spec.label}
        if about.uds:
            env["AGENTENV_UDS"] = f"{SHARED}/s"
    return {**env, **spec.env, **spec.secrets}


def _host(
    spec: SandboxSpec,
    facts: Facts,
    about: About,
    options: DockerOptions,
    *,
    network: Literal["none", "open", "host"],
    init: bool,
) -> dict[str, Any]:
    half = max(options.log_kb // 2, 8)
    host: dict[str, Any] = {
        "NetworkMode": {"none": "none", "open": NETWORK, "host": "host"}[network],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "PidsLimit": spec.resources.pids or options.pids,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": f"{half}k", "max-file": "2"}},
        "RestartPolicy": {"Name": "no"},
        "Init": init,
    }
    cpu, memory = spec.resources.cpu or options.cpu, spec.resources.memory_mb or options.memory_mb
    if cpu is not None:
        host["NanoCpus"] = int(cpu * 1e9)
    if memory is not None:
        host["Memory"] = host["MemorySwap"] = memory << 20
    if options.runtime is not None:
        host["Runtime"] = options.runtime
    if is_read_only(spec, facts, options):
        host["ReadonlyRootfs"] = True
        host["Tmpfs"] = dict.fromkeys(("/tmp", *facts.settings.tmpfs), _TMP_OPTIONS)
    if about.folder:
        host["Mounts"] = [{"Type": "bind", "Source": about.folder, "Target": SHARED}]
    if about.way == "port":
        host["PortBindings"] = {f"{about.port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    return host


def is_read_only(spec: SandboxSpec, facts: Facts, options: DockerOptions) -> bool:
    """Whether the container's root file system is read-only."""
    if options.read_only == "auto":
        return spec.serves and facts.settings.read_only
    return options.read_only == "yes"
