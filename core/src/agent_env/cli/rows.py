"""``agentenv rows``: the rows that a trainer trains on."""

from __future__ import annotations

from pathlib import Path

import click

_SECONDS = click.FloatRange(0, min_open=True)


@click.command("rows")
@click.argument("trainer")
@click.argument("url")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--max-turns", default=4, show_default=True, type=click.IntRange(1), help="Model replies in an episode.")
@click.option("--tool-timeout", default=60.0, show_default=True, type=_SECONDS, help="Seconds for a tool call.")
@click.option(
    "--reset-timeout",
    default=600.0,
    show_default=True,
    type=_SECONDS,
    help="Seconds for getting an episode, and for each turn's end.",
)
@click.option("--model-timeout", default=600.0, show_default=True, type=_SECONDS, help="Seconds for a model's reply.")
@click.option("--token-var", metavar="NAME", help="Environment variable that holds the server's token.")
@click.option("--parser", metavar="NAME", help="Read calls from the reply's text with this parser plugin.")
def command(
    trainer: str,
    url: str,
    out: Path,
    max_turns: int,
    tool_timeout: float,
    reset_timeout: float,
    model_timeout: float,
    token_var: str | None,
    parser: str | None,
) -> None:
    """Write TRAINER's rows for the bundle served at URL into the folder OUT, one file for each split.

    One task of each toolset is started to list its tools. A file is written whole or not at all.
    """
    import asyncio

    from agent_env.plugin.trainer import RowSettings, TrainerAdapter
    from agent_env.registry import default_registry
    from agent_env.rollout.rows import show_progress

    registry = default_registry()
    adapter: TrainerAdapter = registry.load("trainer", trainer)()
    if parser is not None:
        registry.info("parser", parser)
    settings = RowSettings(
        max_turns=max_turns,
        tool_timeout=tool_timeout,
        reset_timeout=reset_timeout,
        model_timeout=model_timeout,
        token_var=token_var,
        parser=parser,
    )
    with show_progress() as progress:
        files = asyncio.run(adapter.write_rows(url, out, settings, progress=progress))
    click.echo(f"wrote {', '.join(file.name for file in files)} to {out}")
