"""The command that installs a distribution."""

from __future__ import annotations

import re
from typing import Final

_FOLDERS: Final = {"sandbox": "sandboxes", "trainer": "trainers", "reward": "rewards", "parser": "parsers"}
_OURS: Final = re.compile(r"agentenv-(sandbox|trainer|reward|parser)-([a-z0-9-]+)(\[[^\]]*\])?")


def install_command(requirement: str) -> str:
    """How to install ``requirement``, a distribution with or without extras; one of ours also from a checkout."""
    command = f'pip install "{requirement}"'
    place = checkout_folder(requirement)
    if place is None:
        return command
    shown = f"'{place}'" if "[" in place else place
    return f"{command}, or in a checkout of AgentEnv: pip install {shown}"


def checkout_folder(requirement: str) -> str | None:
    """Where one of our distributions lies in a checkout, its extras behind it; `None` for another's."""
    if requirement.startswith("agentenv-core"):
        return f"./core{requirement.removeprefix('agentenv-core')}"
    found = _OURS.fullmatch(requirement)
    if found is None:
        return None
    kind, leaf, extras = found.groups()
    return f"./plugins/{_FOLDERS[kind]}/{leaf.replace('-', '_')}{extras or ''}"
