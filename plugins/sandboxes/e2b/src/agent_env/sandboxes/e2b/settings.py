"""How an env is started: ``[process]`` of its ``agentenv.toml``, else its Dockerfile."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agent_env.errors import SandboxUnsupported

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """What the file says.

    Attributes:
        command: argv of the server, `None` = the Dockerfile's.
        port: TCP port that the server insists on, `None` = it reads ``MCP_PORT``.
    """

    command: tuple[str, ...] | None = None
    port: int | None = None


def read_settings(folder: Path, provider: str) -> EnvSettings:
    """Settings of the env in ``folder``; tables of other providers are left to them.

    Raises:
        SandboxUnsupported: the file is wrong; the message says how.
    """
    path = folder / "agentenv.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return EnvSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _wrong(folder, provider, f"cannot be read: {error}") from error
    table: object = document.get("process", {})
    if not isinstance(table, dict):
        raise _wrong(folder, provider, "[process] must be a table")
    fields = cast("dict[str, object]", table)
    command, port = fields.get("command"), fields.get("port")
    if command is not None:
        words = cast("list[object]", command) if isinstance(command, list) else []
        if not words or not all(isinstance(word, str) and word for word in words):
            raise _wrong(folder, provider, '[process] command must be a list of words such as ["python", "server.py"]')
        command = tuple(cast("list[str]", words))
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536):
        raise _wrong(folder, provider, f"[process] port must be a whole number from 1 to 65535, not {port!r}")
    return EnvSettings(command, port)


def _wrong(folder: Path, provider: str, what: str) -> SandboxUnsupported:
    return SandboxUnsupported(f"env {folder.name!r}: agentenv.toml {what}", provider=provider)
