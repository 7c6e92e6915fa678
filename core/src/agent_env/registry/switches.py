"""Which plugins a user switched off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent_env.registry.sources import normalized

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent_env.registry.sources import Source

DISABLE: Final = "AGENTENV_DISABLE_PLUGINS"
ALLOW: Final = "AGENTENV_PLUGINS"


def comma_list(text: str) -> tuple[str, ...]:
    """``"a, b"`` as names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class Switches:
    """Plugins by distribution or entry-point name.

    Attributes:
        disabled: these are switched off; ``*`` = all. It goes before ``allowed``.
        allowed: only these are on; `None` = all.
    """

    disabled: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None

    def why_off(self, source: Source) -> str | None:
        """Why this plugin is switched off, or `None` when it is not. The core's own parts never are."""
        if source.is_core:
            return None
        for name in self.disabled:
            if name == "*" or source.answers_to(name):
                return f"switched off by {DISABLE}={name}"
        if self.allowed is not None and not any(name == "*" or source.answers_to(name) for name in self.allowed):
            return f"not among {ALLOW}={','.join(self.allowed)}"
        return None

    def notes(self, sources: Sequence[Source]) -> tuple[str, ...]:
        """What the user should know about the names given."""
        return (
            *_notes(DISABLE, self.disabled, sources, switches_off=True),
            *_notes(ALLOW, self.allowed or (), sources, switches_off=False),
        )


def _notes(variable: str, names: Iterable[str], sources: Sequence[Source], *, switches_off: bool) -> list[str]:
    notes: list[str] = []
    for name in names:
        meant = [source for source in sources if source.answers_to(name)]
        if switches_off and any(source.is_core for source in meant):
            notes.append(f"{variable}: {name!r} is a part of the core and cannot be switched off")
        elif name != "*" and not meant:
            known = sorted({normalized(source.distribution) for source in sources if not source.is_core})
            notes.append(f"{variable}: no plugin is called {name!r}; installed: {', '.join(known) or 'none'}")
    return notes
