"""What the registry says when there is no plugin of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.registry.hints import hints
from agent_env.registry.install import install_command
from agent_env.registry.sources import normalized
from agent_env.registry.text import near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.registry.catalog import Catalog
    from agent_env.registry.kinds import Kind


def unknown_message(kind: Kind, name: str, catalog: Catalog, names: Sequence[str]) -> str:
    """Nobody offers this name: what is there, what was meant, what to install, what failed."""
    parts = [f"unknown {kind} {name!r}; installed: {', '.join(names) or 'none'}."]
    broken = [fault for fault in catalog.faults if fault.kind in {kind, "plugin"}]
    present = {
        normalized(source.distribution) for source in (*(f.source for f in broken), *(s for s, _ in catalog.off))
    }
    ours = {known: package for known, package in hints(kind).items() if package not in present}
    if name in ours:
        parts.append(f"It comes with another package: {install_command(ours[name])}.")
    else:
        guess = near(name, [*names, *(known for known in ours if known not in names)])
        if guess is not None:
            where = "" if guess in names else f" ({install_command(ours[guess])})"
            parts.append(f"Did you mean {guess!r}{where}?")
        elif not names and not present and ours:
            packages = dict.fromkeys(ours.values())
            parts.append(f"Packages that have one: {', '.join(packages)}; {install_command(next(iter(packages)))}.")
    failed = (f"{fault.source.label} ({fault.source.entry_point}): {fault.reason}" for fault in broken)
    off = (f"{source.label} ({source.entry_point}): {reason}" for source, reason in catalog.off)
    return "\n".join(
        [" ".join(parts), *(f"  failed to load: {line}" for line in failed), *(f"  off: {line}" for line in off)]
    )
