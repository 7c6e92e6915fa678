"""How a server is started where the platform does not run the image's own command."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agent_env.errors import SandboxUnsupported

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Start:
    """What a Dockerfile's last stage and ``agentenv.toml`` say.

    Attributes:
        command: argv of the server, or `None` when nothing says it.
        workdir: absolute; the folder that processes start in.
        ports: TCP ports that the image exposes.
    """

    command: tuple[str, ...] | None
    workdir: str = "/"
    ports: tuple[int, ...] = ()


def read_start(folder: Path, text: str, *, provider: str) -> Start:
    """How to start the env in ``folder`` whose Dockerfile is ``text``.

    The Dockerfile's ENTRYPOINT and CMD come first, because they know the image; a shell form is run by ``/bin/sh``.
    Without them ``command`` of ``[process]`` in ``agentenv.toml`` is taken.

    Raises:
        SandboxUnsupported: ``agentenv.toml`` cannot be read.
    """
    found = parse(text)
    if found.command is not None:
        return found
    try:
        document = tomllib.loads((folder / "agentenv.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return found
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SandboxUnsupported(f"env {folder.name!r}: agentenv.toml: {error}", provider=provider) from error
    process: object = document.get("process")
    command: object = cast("dict[str, object]", process).get("command") if isinstance(process, dict) else None
    if not isinstance(command, list) or not command:
        return found
    words = cast("list[object]", command)
    return Start(tuple(str(word) for word in words), found.workdir, found.ports)


def require_command(start: Start, label: str, *, provider: str) -> tuple[str, ...]:
    """The command.

    Raises:
        SandboxUnsupported: nothing says it.
    """
    if start.command is None:
        raise SandboxUnsupported(
            f"{label}: nothing says how to start its server: its Dockerfile has neither CMD nor ENTRYPOINT and its "
            'agentenv.toml no [process] command; add CMD ["python", "server.py"] to the Dockerfile',
            provider=provider,
        )
    return start.command


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: word in capitals, and the rest with continued lines joined."""
    found: list[tuple[str, str]] = []
    pending = ""
    heredoc: str | None = None
    for line in text.splitlines():
        if heredoc is not None:
            heredoc = None if line.strip() == heredoc else heredoc
            continue
        if line.lstrip().startswith("#") or (not line.strip() and pending):
            continue
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (pending + line).strip().partition(" ")
        pending = ""
        if word:
            found.append((word.upper(), rest.strip()))
        here = re.search(r"<<-?\s*([\"']?)(\w+)\1", rest)
        if here is not None and word.upper() in {"RUN", "COPY", "ADD"}:
            heredoc = here[2]
    return found


def parse(text: str) -> Start:
    """What the last stage says."""
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    workdir, ports = "/", list[int]()
    for word, rest in instructions(text):
        if word == "FROM":
            command, entrypoint, workdir, ports = None, None, "/", []
        elif word == "WORKDIR" and "$" not in rest:
            path = rest.strip("\"'")
            workdir = "/" + (path if path.startswith("/") else f"{workdir}/{path}").strip("/")
        elif word == "EXPOSE":
            names = (name.partition("/") for name in rest.split())
            ports += [int(port) for port, _, kind in names if port.isdigit() and kind in {"", "tcp"}]
        elif word == "CMD":
            command = _argv(rest)
        elif word == "ENTRYPOINT":
            entrypoint, command = _argv(rest), None
    argv = (*(entrypoint or ()), *(command or ()))
    return Start(argv or None, re.sub(r"/+", "/", workdir), tuple(ports))


def _argv(text: str) -> tuple[str, ...]:
    try:
        value: object = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    return ("/bin/sh", "-c", text)
