"""What an env's Dockerfile says that a template does not keep: how to start, where, and with which variables."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".agentenv"
"""Folder in the build context with what is added to it."""
INSIDE = "/opt/agentenv"
"""Where it stands in the template."""

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:\s+|$)(.*)", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_]\w*)\1")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its upper-case name, its text with continuation lines joined, and all of its lines."""

    name: str
    text: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile.

    Attributes:
        instructions: in order.
        command: what it starts, from the last ENTRYPOINT and CMD; `None` = nothing.
        workdir: the last WORKDIR.
        stages: number of FROM instructions.
    """

    instructions: tuple[Instruction, ...]
    command: tuple[str, ...] | None
    workdir: str
    stages: int


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile; what is not understood is left to the service."""
    instructions = tuple(_instructions(text.splitlines()))
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    shell_entrypoint = False
    workdir = "/"
    for one in instructions:
        if one.name == "FROM":
            entrypoint, command, workdir = None, None, "/"
        elif one.name == "WORKDIR":
            place = one.text.strip().strip("\"'")
            workdir = place if place.startswith("/") else f"{workdir.rstrip('/')}/{place}"
        elif one.name == "CMD":
            command = _argv(one.text)
        elif one.name == "ENTRYPOINT":
            entrypoint, shell_entrypoint = _argv(one.text), _exec_form(one.text) is None
    if entrypoint is not None:
        command = entrypoint if shell_entrypoint else (*entrypoint, *(command or ()))
    stages = sum(one.name == "FROM" for one in instructions)
    return Dockerfile(instructions, command or None, workdir, stages)


def _instructions(lines: list[str]) -> Iterator[Instruction]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        taken = [line]
        text = line
        while text.rstrip().endswith("\\") and at < len(lines):
            text = text.rstrip()[:-1]
            following = lines[at]
            taken.append(following)
            at += 1
            text = text + "\\" if following.lstrip().startswith("#") else text + following
        match = _INSTRUCTION.match(text)
        if match is None:
            continue
        name = match[1].upper()
        if name in {"RUN", "COPY", "ADD"}:
            for here in _HEREDOC.finditer(text):
                while at < len(lines):
                    taken.append(lines[at])
                    at += 1
                    if taken[-1].strip() == here[2]:
                        break
        yield Instruction(name, match[2].strip(), tuple(taken))


def _exec_form(text: str) -> tuple[str, ...] | None:
    try:
        words: object = json.loads(text)
    except ValueError:
        return None
    if isinstance(words, list) and all(isinstance(word, str) for word in cast("list[object]", words)):
        return tuple(cast("list[str]", words))
    return None


def _argv(text: str) -> tuple[str, ...]:
    found = _exec_form(text)
    if found is not None:
        return found
    return ("/bin/sh", "-c", text) if text else ()


def variables(dockerfile: Dockerfile) -> str:
    """A shell script that sets what ENV says, where it is not set already, for a template forgets it."""
    lines: list[str] = []
    for one in dockerfile.instructions:
        if one.name == "FROM":
            lines.clear()
        elif one.name in {"ENV", "ARG"}:
            for name, value in _pairs(one.text, plain=one.name == "ARG"):
                text = _quoted(value)
                refers_to_itself = re.search(rf"\$\{{?{name}\b", value) is not None
                export = f"export {name}" if one.name == "ENV" else ":"
                if refers_to_itself or name == "PATH":
                    lines.append(f'case "${{AGENTENV_SET-}}" in 1) ;; *) {name}={text} ;; esac; {export}')
                else:
                    lines.append(f'[ -n "${{{name}+x}}" ] || {name}={text}; {export}')
    lines.append("export AGENTENV_SET=1")
    return "\n".join([*lines, ""])


def _pairs(text: str, *, plain: bool) -> Iterator[tuple[str, str]]:
    words = _words(text)
    if words and "=" not in words[0] and not plain:
        # The old form: one name, and the rest of the line.
        name, _, value = text.partition(" ")
        if _NAME.fullmatch(name):
            yield name, value.strip()
        return
    for word in words:
        name, equals, value = word.partition("=")
        if _NAME.fullmatch(name) and (equals or not plain):
            yield name, value


def _words(text: str) -> list[str]:
    """Words with their quotes taken away; ``$`` inside single quotes is marked with a backslash."""
    words: list[str] = []
    word, quote, inside = "", "", False
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and quote != "'" and at < len(text):
            follows = text[at]
            at += 1
            word += (
                f"\\{follows}" if follows == "$" else follows if follows in "\"'\\ " or not quote else f"\\{follows}"
            )
            inside = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += "\\$" if char == "$" and quote == "'" else char
        elif char in "\"'":
            quote, inside = char, True
        elif char.isspace():
            if inside:
                words.append(word)
            word, inside = "", False
        else:
            word, inside = word + char, True
    return [*words, word] if inside else words


def _quoted(value: str) -> str:
    """The value in double quotes: references to variables stay, everything else is literal."""
    out = ""
    at = 0
    while at < len(value):
        char = value[at]
        at += 1
        if char == "\\" and value[at : at + 1] == "$":
            out, at = out + "\\$", at + 1
        elif char == "$" and not re.match(r"\{?[A-Za-z_]", value[at:]):
            out += "\\$"
        elif char in '"\\`':
            out += "\\" + char
        else:
            out += char
    return f'"{out}"'


def for_template(dockerfile: Dockerfile, *, core: bool, wheel: str | None) -> str:
    """The Dockerfile of the template: nothing is started in it, and what AgentEnv adds is there.

    A template's own start command would run once, at build time, and every sandbox would be a copy of that process.

    Args:
        dockerfile: the env's.
        core: whether our core goes in.
        wheel: file name of the wheel when the Dockerfile installs agentenv-core itself.
    """
    lines: list[str] = []
    for one in dockerfile.instructions:
        if one.name in {"CMD", "ENTRYPOINT", "HEALTHCHECK", "STOPSIGNAL", "ONBUILD"}:
            continue
        lines += one.lines
        if one.name == "FROM":
            lines.append(f"COPY {FOLDER}/env.sh {INSIDE}/env.sh")
            if wheel is not None:
                place = f"{INSIDE}/wheels"
                lines += [
                    f"COPY {FOLDER}/wheels {place}",
                    (
                        f"ENV PIP_CONSTRAINT={place}/constraints.txt UV_CONSTRAINT={place}/constraints.txt "
                        f"PIP_FIND_LINKS={place} UV_FIND_LINKS={place}"
                    ),
                ]
    if core:
        lines.append(f"COPY {FOLDER}/core {INSIDE}/core")
    return "\n".join([*lines, ""])


def join(argv: tuple[str, ...] | list[str]) -> str:
    """A command line of the shell."""
    return shlex.join(argv)
