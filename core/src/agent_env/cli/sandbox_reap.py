"""``agentenv sandbox reap``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click
from agent_env.cli.sandbox_providers import ask, provider_options, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.sandbox import SandboxProvider

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_HELP: Final = """End the sandboxes that nobody owns any more, of all installed providers.

Those are: what a server left that was killed, and what lives past its time. What a running server owns is never
touched. Servers on other machines cannot be seen from here: what they made is ended once its time is over, and with
--older-than also when it was made longer ago than that.
"""


def read_duration(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """``90``, ``90s``, ``30m``, ``2h`` or ``1d``, in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no duration; write 90s, 30m, 2h or 1d", param=parameter)
    return float(match[1]) * _UNITS[match[2]]


@click.command("reap", help=_HELP)
@provider_options
@click.option(
    "--older-than",
    callback=read_duration,
    metavar="DURATION",
    help="Also what unseen owners made longer ago: 90s, 30m, 2h, 1d.",
)
def command(*, names: tuple[str, ...], pairs: tuple[str, ...], timeout: float, older_than: float | None) -> None:
    """End what nobody owns."""

    async def reap(provider: SandboxProvider) -> Sequence[str]:
        return await provider.reap(older_than_s=older_than)

    answers = ask(names, pairs, timeout, reap)
    ended = [(answer.name, sandbox_id) for answer in answers for sandbox_id in answer.value or ()]
    for name, sandbox_id in ended:
        click.echo(f"{name}  {sandbox_id}")
    click.echo(f"ended {len(ended)} sandbox{'' if len(ended) == 1 else 'es'}")
    if report(answers, names):
        raise click.exceptions.Exit(1)
