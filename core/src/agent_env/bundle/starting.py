"""What an env's ``agentenv.toml`` says of its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle.names import did_you_mean, listing
from agent_env.bundle.tomltext import TomlFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_KEYS: Final = ("process", "startup_timeout")
_PROCESS_KEYS: Final = ("command", "port", "prefork")
_MOST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Start:
    """How the server of an env is started.

    Attributes:
        command: whether the file says with which command.
        startup_timeout: seconds for the server to become ready, `None` = the usual.
    """

    command: bool = False
    startup_timeout: float | None = None


def read_start(path: Path, report: Callable[..., None]) -> Start:
    """Check the file; what is wrong is reported. Tables of sandbox providers are left to these."""
    toml = TomlFile(path, report)
    for key, value in toml.table.items():
        hint = did_you_mean(key, _KEYS)
        if key not in _KEYS and (hint or not isinstance(value, dict)):
            known = f"; known: {listing(_KEYS)}, and tables of sandbox providers"
            toml.problem(key, f"unknown key {key!r}{hint or known}")
    return Start(_process_command(toml), _startup_timeout(toml))


def _startup_timeout(toml: TomlFile) -> float | None:
    value = toml.table.get("startup_timeout")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST_S:
        toml.problem("startup_timeout", f"'startup_timeout' has to be seconds above 0, at most a day, not {value!r}")
        return None
    return float(value)


def _process_command(toml: TomlFile) -> bool:
    value = toml.table.get("process")
    if value is None:
        return False
    if not isinstance(value, dict):
        toml.problem("process", "'process' has to be a table")
        return False
    process = cast("dict[str, Any]", value)
    for key in process:
        if key not in _PROCESS_KEYS:
            toml.problem(key, f"unknown key {key!r} in [process]{did_you_mean(key, _PROCESS_KEYS)}")
    command = process.get("command")
    if command is not None and not _is_argv(command):
        toml.problem("command", f"'command' has to be a list of strings that is not empty, not {command!r}")
    port = process.get("port")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
        toml.problem("port", f"'port' has to be a port number, not {port!r}")
    if not isinstance(process.get("prefork", False), bool):
        toml.problem("prefork", f"'prefork' has to be true or false, not {process['prefork']!r}")
    return _is_argv(command)


def _is_argv(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, str) and item for item in cast("list[object]", value))
