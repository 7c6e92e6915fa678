"""Everything that was found, in one immutable object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_env.registry.clash import clash_message
from agent_env.registry.collect import Claim, Fault, collect
from agent_env.registry.kinds import KINDS, SPECS, Kind
from agent_env.registry.rows import PluginRow
from agent_env.registry.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agent_env.registry.rows import RowKind, Status
    from agent_env.registry.sources import Source
    from agent_env.registry.switches import Switches


@dataclass(frozen=True, slots=True)
class Catalog:
    """What was found.

    Attributes:
        claims: by kind and name, who offers it; more than one = a clash.
        losers: claims that stand back because the core has the name, with the reason.
        faults: what is broken.
        off: plugins that are switched off, with the reason.
        idle: plugins that loaded and offer nothing.
        notes: about the names in the switches.
    """

    claims: Mapping[Kind, Mapping[str, tuple[Claim, ...]]]
    losers: tuple[tuple[Claim, str], ...] = ()
    faults: tuple[Fault, ...] = ()
    off: tuple[tuple[Source, str], ...] = ()
    idle: tuple[Source, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def rows(self, problem_of: Callable[[Claim], str | None] | None) -> Iterator[PluginRow]:
        """A row for each thing found; ``problem_of`` says what is wrong with a claim that looks right."""
        for kind in KINDS:
            for name, owners in self.claims[kind].items():
                clash = clash_message(kind, name, owners) if len(owners) > 1 else None
                for claim in owners:
                    problem = problem_of(claim) if clash is None and problem_of is not None else None
                    status: Status = "clash" if clash else "failed" if problem else "ok"
                    yield _claim_row(claim, status, clash or problem or "")
        for claim, reason in self.losers:
            yield _claim_row(claim, "clash", reason)
        for fault in self.faults:
            yield _row(fault.source, fault.kind, fault.name, "failed", fault.reason)
        for source, reason in self.off:
            yield _row(source, "plugin", source.entry_point, "disabled", reason)
        for source in self.idle:
            yield _row(source, "plugin", source.entry_point, "ok", "", summary="offers nothing here")


def build_catalog(sources: Sequence[Source], switches: Switches) -> Catalog:
    """Ask every plugin that is not switched off."""
    found: dict[Kind, dict[str, tuple[Claim, ...]]] = {kind: {} for kind in KINDS}
    faults: list[Fault] = []
    off: list[tuple[Source, str]] = []
    idle: list[Source] = []
    for source in sources:
        reason = switches.why_off(source)
        if reason is not None:
            off.append((source, reason))
            continue
        claims, wrong = collect(source)
        faults += wrong
        if not claims and not wrong:
            idle.append(source)
        for claim in claims:
            names = found[claim.spec.kind]
            names[claim.info.name] = (*names.get(claim.info.name, ()), claim)
    losers = _settle_commands(found["command"])
    return Catalog(found, tuple(losers), tuple(faults), tuple(off), tuple(idle), switches.notes(sources))


def _settle_commands(commands: dict[str, tuple[Claim, ...]]) -> list[tuple[Claim, str]]:
    """Nobody may take a command of the core away, `agentenv plugins list` least of all; and a word is either a
    command or a group of commands."""
    losers: list[tuple[Claim, str]] = []

    def drop(name: str, claims: Sequence[Claim], reason: str) -> None:
        losers.extend((claim, reason) for claim in claims)
        kept = tuple(claim for claim in commands[name] if claim not in claims)
        if kept:
            commands[name] = kept
        else:
            del commands[name]

    for name, owners in list(commands.items()):
        others = [claim for claim in owners if not claim.source.is_core]
        if 0 < len(others) < len(owners):
            drop(name, others, clash_message(SPECS["command"].kind, name, owners))
    for name in [name for name in commands if " " in name]:
        group = name.partition(" ")[0]
        if group not in commands or name not in commands:
            continue
        word_is_core = any(claim.source.is_core for claim in commands[group])
        loser = name if word_is_core else group
        drop(loser, commands[loser], f"{group!r} is a command and the group of {name!r}; only one can be")
    return losers


def _claim_row(claim: Claim, status: Status, reason: str) -> PluginRow:
    return _row(claim.source, claim.spec.kind, claim.info.name, status, reason, summary=claim.info.summary)


def _row(source: Source, kind: RowKind, name: str, status: Status, reason: str, *, summary: str = "") -> PluginRow:
    return PluginRow(
        kind=kind,
        name=name,
        summary=one_line(summary),
        distribution=one_line(source.distribution),
        version=source.version,
        entry_point=one_line(source.entry_point),
        status=status,
        reason=one_line(reason),
        home_page=source.home_page,
    )
