"""``[process]`` of an env's ``agentenv.toml``, and what is left to its Dockerfile."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.building import dockerfile as dockerfiles

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("command", "port", "prefork")
_TOP = ("process", "startup_timeout")  # the second is read with the bundle
_WORKDIR = "/app"


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """How an env is started as a process.

    Attributes:
        command: argv of the server.
        workdir: where its files are, an absolute path under the sandbox's root; ``/app`` when nothing says it.
        port: TCP port the server insists on, None = it reads ``MCP_PORT``.
        prefork: fork it from a warm interpreter.
        env: variables its Dockerfile sets.
        requirements: content of ``requirements.txt``, None = the server's own Python.
    """

    command: tuple[str, ...]
    workdir: str = _WORKDIR
    port: int | None = None
    prefork: bool = False
    env: dict[str, str] = field(default_factory=dict[str, str])
    requirements: str | None = None


def read_settings(folder: Path, dockerfile: str = "Dockerfile") -> EnvSettings:
    """Settings of the env in ``folder``.

    Raises:
        SandboxUnsupported: they are wrong or missing; the message says what to write.
    """
    name = folder.name
    table = _process_table(folder / "agentenv.toml", name)
    text = _read(folder / dockerfile)
    found = dockerfiles.parse(text or "")
    command = table.get("command") or found.command
    if command is None:
        raise SandboxUnsupported(
            f"env {name!r}: neither [process] command in its agentenv.toml nor a CMD in its Dockerfile says how to "
            "start it; add one of them",
            provider="process",
        )
    return EnvSettings(
        command=tuple(command),
        workdir=found.workdir or _WORKDIR,
        port=table.get("port"),
        prefork=table.get("prefork", False),
        env=found.env,
        requirements=_read(folder / "requirements.txt"),
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxUnsupported(f"cannot read {path}: {error}", provider="process") from error


def _process_table(path: Path, name: str) -> dict[str, Any]:
    text = _read(path)
    if text is None:
        return {}
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong(name, f"is no TOML: {error}") from error
    for key, value in document.items():
        # Another table is another provider's, unless it looks like a slip of the pen.
        if key not in _TOP and (not isinstance(value, dict) or difflib.get_close_matches(key, ["process"], 1)):
            raise _unknown(name, f"table or key {key!r}", key, ("process",))
    table: object = document.get("process", {})
    if not isinstance(table, dict):
        raise _wrong(name, "[process] must be a table")
    fields = cast("dict[str, object]", table)
    for key in fields:
        if key not in _KEYS:
            raise _unknown(name, f"key {key!r} in [process]", key, _KEYS)
    _check(name, fields)
    return fields


def _check(name: str, fields: dict[str, object]) -> None:
    command = fields.get("command")
    if command is not None and not (
        isinstance(command, list)
        and command
        and all(isinstance(word, str) and word for word in cast("list[object]", command))
    ):
        raise _wrong(name, '[process] command must be a non-empty list of strings such as ["python", "server.py"]')
    port = fields.get("port")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536):
        raise _wrong(name, f"[process] port must be a whole number from 1 to 65535, not {port!r}")
    if not isinstance(fields.get("prefork", False), bool):
        raise _wrong(name, f"[process] prefork must be true or false, not {fields['prefork']!r}")


def _wrong(name: str, what: str) -> SandboxUnsupported:
    return SandboxUnsupported(f"env {name!r}: agentenv.toml: {what}", provider="process")


def _unknown(name: str, what: str, key: str, known: tuple[str, ...]) -> SandboxUnsupported:
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return _wrong(name, f"unknown {what}; {hint}")
