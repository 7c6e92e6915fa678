"""What a Dockerfile's last stage says about its server: CMD, ENTRYPOINT, WORKDIR, ENV, EXPOSE."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import cast


@dataclass(slots=True)
class Dockerfile:
    """What the last build stage says.

    Attributes:
        command: argv of the server, a shell's where CMD or ENTRYPOINT is in shell form; None when there is neither.
        workdir: absolute; None when it is not said here or has a ``$`` in it.
        env: variables of ENV instructions without ``$`` references.
        ports: TCP ports of EXPOSE.
    """

    command: tuple[str, ...] | None = None
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    ports: tuple[int, ...] = ()


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


def _exec_form(text: str) -> tuple[str, ...] | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    return None


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile; what does not matter for the server is skipped."""
    result = Dockerfile()
    parts: dict[str, tuple[str, ...]] = {}
    shells: set[str] = set[str]()
    for word, rest in instructions(text):
        if word == "FROM":
            result, parts, shells = Dockerfile(), {}, set[str]()
        elif word == "WORKDIR":
            result.workdir = _workdir(result.workdir, rest)
        elif word == "ENV":
            result.env.update(_env(rest))
        elif word == "EXPOSE":
            result.ports += tuple(int(port) for port in re.findall(r"(?<!\S)(\d+)(?:/tcp)?(?!\S)", rest))
        elif word in {"CMD", "ENTRYPOINT"}:
            argv = _exec_form(rest)
            parts[word] = ("/bin/sh", "-c", rest) if argv is None else argv
            shells.discard(word)
            if argv is None:
                shells.add(word)
    # An ENTRYPOINT in shell form does not take the words of CMD.
    cmd = () if "ENTRYPOINT" in shells else parts.get("CMD", ())
    result.command = (parts.get("ENTRYPOINT", ()) + cmd) or None
    return result


def _workdir(now: str | None, said: str) -> str | None:
    if "$" in said:
        return None
    if said.startswith("/"):
        return posixpath.normpath(said)
    return posixpath.normpath(posixpath.join(now, said)) if now is not None else None


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
