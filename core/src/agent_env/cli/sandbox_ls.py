"""``agentenv sandbox ls``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click
from agent_env.cli.sandbox_providers import ask, provider_options, report

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxProvider, SandboxRecord

_OWNERS: Final = {True: "alive", False: "dead", None: "elsewhere"}

_HELP: Final = """List the sandboxes that AgentEnv made and that still are, of all installed providers.

OWNER says whether the server that made one still runs: alive, dead, or elsewhere when that cannot be told from this
machine. `agentenv sandbox reap` ends those whose owner is dead and those whose time is over.

\b
--json prints a list of objects with the keys
  provider, id, status, owner (alive, dead, elsewhere), labels,
  created_at and expires_at (Unix time; expires_at may be null)
"""


@click.command("ls", help=_HELP)
@provider_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
def command(*, names: tuple[str, ...], pairs: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """List sandboxes."""
    from agent_env.cli.output import print_json, print_table

    answers = ask(names, pairs, timeout, _records)
    found = [(answer.name, record) for answer in answers for record in answer.value or ()]
    found.sort(key=lambda pair: (pair[0], pair[1].created_at))
    if as_json:
        print_json([_json(name, record) for name, record in found])
    elif found:
        print_table(
            ("PROVIDER", "ID", "STATUS", "OWNER", "AGE", "ENDS IN", "LABELS"),
            [_row(name, record, time.time()) for name, record in found],
        )
    elif any(answer.error is None for answer in answers):
        click.echo("no sandboxes")
    if report(answers, names):
        raise click.exceptions.Exit(1)


async def _records(provider: SandboxProvider) -> list[SandboxRecord]:
    return [record async for record in provider.list() if record.status != "gone"]


def _json(name: str, record: SandboxRecord) -> dict[str, Any]:
    return {
        "provider": name,
        "id": record.id,
        "status": record.status,
        "owner": _OWNERS[record.owner_alive],
        "labels": dict(record.labels),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
    }


def _row(name: str, record: SandboxRecord, now: float) -> tuple[str, ...]:
    ends = "-" if record.expires_at is None else duration(record.expires_at - now)
    labels = " ".join(f"{key}={value}" for key, value in sorted(record.labels.items()) if key not in {"agentenv"})
    return (
        name,
        record.id,
        record.status,
        _OWNERS[record.owner_alive],
        duration(now - record.created_at),
        ends,
        labels,
    )


def duration(seconds: float) -> str:
    """Seconds as people read them: ``45s``, ``12m``, ``3h``, ``2d``; ``over`` when they are past."""
    if seconds < 0:
        return "over"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
