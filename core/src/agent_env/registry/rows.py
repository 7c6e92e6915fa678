"""One line of the report about plugins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from agent_env.registry.kinds import KINDS, Kind

Status = Literal["ok", "failed", "disabled", "clash"]
RowKind = Kind | Literal["plugin"]

_ORDER: Final[dict[str, int]] = {kind: place for place, kind in enumerate((*KINDS, "plugin"))}


@dataclass(frozen=True, slots=True)
class PluginRow:
    """Something that was found.

    Attributes:
        kind: the kind, or ``"plugin"`` for a plugin as a whole (it failed, is switched off or offers nothing).
        name: the name that users write; the entry point's for a plugin as a whole; ``""`` where none can be read.
        summary: one line.
        distribution: name of the distribution.
        version: its version, ``""`` where there is none.
        entry_point: name of its entry point.
        status: ``ok``, ``failed``, ``disabled``, or ``clash`` when another plugin claims the same name.
        reason: why it is not ``ok``; ``""`` when it is.
        home_page: address of the project, ``""`` where its metadata has none.
    """

    kind: RowKind
    name: str
    summary: str
    distribution: str
    version: str
    entry_point: str
    status: Status
    reason: str
    home_page: str

    @property
    def plugin(self) -> str:
        """Distribution and version."""
        return f"{self.distribution} {self.version}".strip()

    def sort_key(self) -> tuple[int, str, str, str]:
        return (_ORDER[self.kind], self.name, self.distribution, self.entry_point)
