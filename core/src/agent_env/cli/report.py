"""``agentenv report``: one HTML page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agent_env.evaluation.summary import Prices


@click.command("report")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The file.  [default: RUN/report.html]")
@click.option("--without-transcripts", is_flag=True, help="Leave the conversations out; they are most of the page.")
@click.option(
    "--price-in", type=click.FloatRange(0), help="Price of a million prompt tokens.  [default: that of the eval]"
)
@click.option(
    "--price-out", type=click.FloatRange(0), help="Price of a million completion tokens.  [default: that of the eval]"
)
def command(
    run: Path, out: Path | None, price_in: float | None, price_out: float | None, *, without_transcripts: bool
) -> None:
    """Write one self-contained HTML page of the run in the folder RUN: plots, figures and every episode."""
    from agent_env.cli.eval import read_prices
    from agent_env.evaluation.page import render_page
    from agent_env.evaluation.store import read_conversations, read_history, write_whole

    settings, records, wasted = read_history(run)
    page = render_page(
        settings,
        records,
        prices=read_prices(price_in, price_out) or _prices_of(run),
        transcripts=not without_transcripts,
        conversations=read_conversations(run),
        wasted=wasted,
    )
    path = out or run / "report.html"
    write_whole(path, page)
    click.echo(str(path))


def _prices_of(run: Path) -> Prices | None:
    """The prices with which the run was summed up last, if any."""
    import json

    from agent_env.evaluation.summary import Prices

    try:
        prices = json.loads((run / "summary.json").read_text(encoding="utf-8"))["prices"]
        return Prices(float(prices["in"]), float(prices["out"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
