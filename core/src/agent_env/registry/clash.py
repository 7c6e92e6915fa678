"""What the registry says when several plugins have one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.registry.switches import DISABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.registry.collect import Claim
    from agent_env.registry.kinds import Kind


def clash_message(kind: Kind, name: str, owners: Sequence[Claim]) -> str:
    """Two plugins claim one name."""
    labels = [claim.source.label for claim in owners]
    if len(set(labels)) < len(labels):
        labels = [f"{claim.source.label} (entry point {claim.source.entry_point!r})" for claim in owners]
    defined = f"{kind} {name!r} is defined by {' and '.join(labels)}"
    foreign = [claim.source for claim in owners if not claim.source.is_core]
    if not foreign:
        return defined
    last = foreign[-1]
    same = [source for source in foreign if source.distribution == last.distribution]
    off = last.entry_point if len(same) > 1 else last.distribution
    return f"{defined}; switch one off with {DISABLE}={off}"
