"""What is added to an env's Dockerfile: the server's own core, so that nothing is fetched under that name."""

from __future__ import annotations

import re

from agent_env.plugin.building.dockerfile import parse

FOLDER = ".agentenv"
"""Folder in the build context with what is added to it."""
INSIDE = "/opt/agentenv"
"""Where it stands in the image."""

_CORE = re.compile(r"agentenv[-_.]core(?![-_.\w])", re.IGNORECASE)
_FOREIGN = re.compile(r"agentenv[-_.]framework(?![-_.\w])", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(\s|$)")
_CONTINUED = re.compile(r"\\\s*$")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)(\w+)\1")


def names_core(text: str) -> bool:
    """Whether a Dockerfile or a list of requirements asks for our core by name."""
    return any(_CORE.search(line) for line in text.splitlines() if not line.lstrip().startswith("#"))


def names_foreign(text: str) -> bool:
    """Whether it asks for the package that claims our import name: ours is then left out."""
    return any(_FOREIGN.search(line) for line in text.splitlines() if not line.lstrip().startswith("#"))


def with_core(text: str, *, installs: bool, expands: bool = True) -> str:
    """The Dockerfile with our core in it.

    The core's files stand last on the path of Python modules, whatever Python and user the image has. With
    ``installs``, every stage also gets the wheel and constraints by which pip and uv take it for agentenv-core.

    Args:
        text: the Dockerfile.
        installs: whether the Dockerfile or its requirements install agentenv-core themselves.
        expands: whether the builder knows ``${NAME:+word}``; else what the base image sets is left out of the path.
    """
    lines = _after_from(text.splitlines(), _INSTALLING) if installs else text.splitlines()
    before = parse(text).env.get("PYTHONPATH")
    path = "${PYTHONPATH:+$PYTHONPATH:}" if expands else f"{before}:" if before else ""
    return "\n".join([*lines, "", f"COPY {FOLDER}/core {INSIDE}/core", f'ENV PYTHONPATH="{path}{INSIDE}/core"', ""])


def constraints(wheel: str) -> str:
    """Content of the constraints file."""
    return f"agentenv-core @ file://{INSIDE}/wheels/{wheel}\n"


_CONSTRAINTS = f"{INSIDE}/wheels/constraints.txt"
_INSTALLING = [
    f"COPY {FOLDER}/wheels {INSIDE}/wheels",
    f"ENV PIP_CONSTRAINT={_CONSTRAINTS} UV_CONSTRAINT={_CONSTRAINTS}",
    f"ENV PIP_FIND_LINKS={INSIDE}/wheels UV_FIND_LINKS={INSIDE}/wheels",
]


def _after_from(lines: list[str], added: list[str]) -> list[str]:
    """``added`` behind every FROM that starts a stage with files."""
    result: list[str] = []
    continued = False
    is_from = False
    heredoc: str | None = None
    for line in lines:
        result.append(line)
        if heredoc is not None:
            heredoc = None if line.strip() == heredoc else heredoc
            continue
        if line.lstrip().startswith("#"):
            continue
        if not continued:
            match = _INSTRUCTION.match(line)
            is_from = match is not None and match[1].upper() == "FROM"
        here = _HEREDOC.search(line)
        if here is not None and not is_from:
            heredoc = here[2]
        continued = _CONTINUED.search(line) is not None
        if is_from and not continued:
            result += added
            is_from = False
    return result
