"""``python -m agent_env.training.miles URL OUT``: write the rows that Miles trains on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
from agent_env.errors import AgentEnvError, UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.rows import show_progress
from agent_env.training.miles.adapter import MilesAdapter

_SECONDS = click.FloatRange(0, min_open=True)


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.argument("url")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--max-turns", type=click.IntRange(1), default=4, help="Model replies in an episode.")
@click.option("--tool-timeout", type=_SECONDS, default=60, help="Seconds for a tool call.")
@click.option(
    "--reset-timeout", type=_SECONDS, default=600, help="Seconds for getting an episode, and for each turn's end."
)
@click.option("--model-timeout", type=_SECONDS, default=600, help="Seconds for a reply of the model.")
@click.option("--token-var", metavar="NAME", help="Environment variable that holds the server's token.")
@click.option("--parser", metavar="NAME", help="Read calls from the reply's text with this parser plugin.")
def main(
    url: str,
    out: Path,
    max_turns: int,
    tool_timeout: float,
    reset_timeout: float,
    model_timeout: float,
    token_var: str | None,
    parser: str | None,
) -> None:
    """Write one file of rows for each split of the bundle served at URL into the folder OUT.

    One task of each toolset is started to list its tools. A file is written whole or not at all.
    """
    settings = RowSettings(
        max_turns=max_turns,
        tool_timeout=tool_timeout,
        reset_timeout=reset_timeout,
        model_timeout=model_timeout,
        token_var=token_var,
        parser=parser,
    )
    try:
        with show_progress() as progress:
            files = asyncio.run(MilesAdapter().write_rows(url, out, settings, progress=progress))
    except AgentEnvError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    click.echo(f"wrote {', '.join(file.name for file in files)} to {out}")


if __name__ == "__main__":
    main(prog_name="python -m agent_env.training.miles")
