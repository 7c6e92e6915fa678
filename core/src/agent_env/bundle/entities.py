"""The envs, artifacts, agents and skills of a bundle, and how a step names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agent_env.bundle.cards import tool_names
from agent_env.bundle.names import did_you_mean, listing

if TYPE_CHECKING:
    from agent_env.bundle.findings import Findings
    from agent_env.bundle.model import Artifact, EnvSpec

Kind = Literal["env", "artifact", "agent", "skill"]


class Entities:
    """Finds entities by folder name, full id or alias.

    Attributes:
        unusable: what `problem` said of entities whose own problems are reported where they are.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.unusable: set[str] = set()
        self.envs: dict[str, EnvSpec] = {}
        self.artifacts: dict[str, Artifact] = {}
        self._tools: dict[str, tuple[str, ...]] = {}
        self._names: dict[Kind, dict[str, str]] = {"env": {}, "artifact": {}, "agent": {}, "skill": {}}

    def declare(self, kind: Kind, folder: str, *names: str) -> None:
        """``folder`` can be named so too."""
        for name in (folder, *names):
            self._names[kind].setdefault(name, folder)

    def folder(self, kind: Kind, name: str) -> str | None:
        """The folder that ``name`` means, or `None`; it may be one that cannot be used."""
        return self._names[kind].get(name)

    def names(self, kind: Kind) -> dict[str, str]:
        """Every name of this kind with its folder."""
        return self._names[kind]

    def tools(self, env: str) -> tuple[str, ...]:
        """Tools that the env in the folder ``env`` surely offers; empty when its source does not say."""
        if env not in self._tools:
            self._tools[env] = tool_names(self.envs[env].path) if env in self.envs else ()
        return self._tools[env]

    def problem(self, kind: Kind, name: str) -> str | None:
        """Why ``name`` cannot be used, or `None`."""
        folder = self.folder(kind, name)
        if folder is None:
            known = self._names[kind]
            hint = did_you_mean(name, known) or f"; the bundle has: {listing(sorted(set(known.values())))}"
            return f"there is no {kind} {name!r} in the bundle{hint}"
        found = self._findings.entities.get((kind, folder))
        if not found:
            return None
        message = f"the {kind} {name!r} cannot be used: {found[0]}"
        self.unusable.add(message)
        return message
