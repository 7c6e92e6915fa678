"""The little that a process needs of a Dockerfile: CMD and ENTRYPOINT in exec form, WORKDIR, ENV, EXPOSE."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import cast

from agent_env.errors import SandboxUnsupported


@dataclass(slots=True)
class Dockerfile:
    """What the last build stage says.

    Attributes:
        command: argv of the server, None when there is no CMD or ENTRYPOINT.
        shell: the text of a CMD or ENTRYPOINT in shell form, which is not run.
        workdir: absolute, ``/app`` when it is not said.
        env: variables of ENV instructions without ``$`` references.
    """

    command: tuple[str, ...] | None = None
    shell: str | None = None
    workdir: str = "/app"
    env: dict[str, str] = field(default_factory=dict[str, str])


def _instructions(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    pending = ""
    for line in text.splitlines():
        if line.strip().startswith("#") or (not line.strip() and pending):
            continue
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (pending + line).strip().partition(" ")
        pending = ""
        if word:
            found.append((word.upper(), rest.strip()))
    return found


def _exec_form(text: str) -> tuple[str, ...] | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    return None


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile; what a process does not need is skipped."""
    result = Dockerfile()
    parts: dict[str, tuple[str, ...]] = {}
    shells: dict[str, str] = {}
    for word, rest in _instructions(text):
        if word == "FROM":
            result, parts, shells = Dockerfile(), {}, {}
        elif word == "WORKDIR" and "$" not in rest:
            base = "" if rest.startswith("/") else result.workdir.rstrip("/") + "/"
            result.workdir = "/" + (base + rest).strip("/")
        elif word == "ENV":
            result.env.update(_env(rest))
        elif word in {"CMD", "ENTRYPOINT"}:
            parts.pop(word, None)
            shells.pop(word, None)
            if word == "ENTRYPOINT":
                parts.pop("CMD", None)
                shells.pop("CMD", None)
            argv = _exec_form(rest)
            if argv is None:
                shells[word] = f"{word} {rest}"
            else:
                parts[word] = argv
    argv = parts.get("ENTRYPOINT", ()) + parts.get("CMD", ())
    result.command = argv or None
    result.shell = next(iter(shells.values()), None)
    return result


def _env(rest: str) -> dict[str, str]:
    legacy = re.fullmatch(r"(\w+)\s+([^=]*)", rest)
    if legacy is not None:
        return {legacy[1]: legacy[2]} if "$" not in legacy[2] else {}
    try:
        words = shlex.split(rest)
    except ValueError:
        return {}
    pairs = [word.partition("=") for word in words if "=" in word]
    return {key: value for key, _, value in pairs if "$" not in value}


def require_command(dockerfile: Dockerfile, name: str) -> tuple[str, ...]:
    """The command, or the reason in words.

    Raises:
        SandboxUnsupported: the command is in shell form, or there is none.
    """
    if dockerfile.shell is not None:
        raise SandboxUnsupported(
            f"env {name!r}: its Dockerfile starts the server in shell form ({dockerfile.shell!r}), which the process "
            'sandbox does not run; write it as CMD ["python", "server.py"], '
            "or name the command in [process] of its agentenv.toml",
            provider="process",
        )
    if dockerfile.command is None:
        raise SandboxUnsupported(
            f"env {name!r}: neither [process] command in its agentenv.toml nor a CMD in its Dockerfile says how to "
            "start it; add one of them",
            provider="process",
        )
    return dockerfile.command
