"""How the server of an env's image is started, by its Dockerfile and ``agentenv.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.building import dockerfile

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How a server is started.

    Attributes:
        command: argv, None when nothing says it.
        workdir: the image's work folder, None when the base image decides.
        port: TCP port that the server insists on, None = it reads ``MCP_PORT``.
    """

    command: tuple[str, ...] | None
    workdir: str | None
    port: int | None


def server_of(folder: Path, source: str, *, provider: str) -> ServerPlan:
    """What the Dockerfile's last CMD or ENTRYPOINT starts, else ``[process] command`` of ``agentenv.toml``.

    Args:
        folder: the env's folder.
        source: its Dockerfile.
        provider: whose errors these are.

    Raises:
        SandboxUnsupported: ``agentenv.toml`` cannot be read or is wrong.
    """
    found = dockerfile.parse(source)
    table = _process_table(folder, provider)
    command, port = table.get("command"), table.get("port")
    said = cast("list[object]", command) if isinstance(command, list) else []
    if command is not None and not (said and all(isinstance(word, str) for word in said)):
        raise _wrong(folder, '[process] command must be a list of strings such as ["python", "server.py"]', provider)
    if port is not None and (not isinstance(port, int) or not 0 < port < 65536):
        raise _wrong(folder, f"[process] port must be a whole number from 1 to 65535, not {port!r}", provider)
    if port is None and len(found.ports) == 1:
        port = found.ports[0]
    return ServerPlan(
        command=found.command or tuple(str(word) for word in said) or None, workdir=found.workdir, port=port
    )


def need_command(plan: ServerPlan, name: str, *, provider: str) -> tuple[str, ...]:
    """The command.

    Raises:
        SandboxUnsupported: nothing says it.
    """
    if plan.command is None:
        raise SandboxUnsupported(
            f"{name}: neither a CMD in the env's Dockerfile nor [process] command in its agentenv.toml says how to "
            'start its server; add CMD ["python", "server.py"] to the Dockerfile',
            provider=provider,
        )
    return plan.command


def _process_table(folder: Path, provider: str) -> dict[str, Any]:
    try:
        document = tomllib.loads((folder / "agentenv.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _wrong(folder, str(error), provider) from error
    table: object = document.get("process", {})
    if not isinstance(table, dict):
        raise _wrong(folder, "[process] must be a table", provider)
    return cast("dict[str, Any]", table)


def _wrong(folder: Path, what: str, provider: str) -> SandboxUnsupported:
    return SandboxUnsupported(f"env {folder.name!r}: agentenv.toml: {what}", provider=provider)
