"""``agentenv rehearse``: play a bundle through a trainer's own functions before a GPU is rented."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from agent_env.cli.server_options import read_reward, read_sandbox_options, server_options

if TYPE_CHECKING:
    from agent_env.testing.rehearsal_report import Rehearsal


@click.command("rehearse")
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--trainer", default="miles", show_default=True, help="Trainer adapter whose functions play.")
@click.option("--split", help="Split to play.  [default: eval where there is one, else all]")
@click.option("--groups", default=4, show_default=True, type=click.IntRange(1), help="Tasks to play.")
@click.option("--samples", default=8, show_default=True, type=click.IntRange(1), help="Episodes for each task.")
@click.option(
    "--policy",
    default="random",
    show_default=True,
    metavar="NAME",
    help="The stand-in model: random, a function of the bundle's policies.py, or FILE.py:FUNCTION.",
)
@click.option("--session", help="The trainer's session kind, such as v1 or v2 for miles.")
@click.option("--max-turns", default=4, show_default=True, type=click.IntRange(1), help="Model replies in an episode.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@server_options
@click.pass_context
def command(
    context: click.Context,
    bundle: Path,
    trainer: str,
    split: str | None,
    groups: int,
    samples: int,
    policy: str,
    session: str | None,
    max_turns: int,
    reward: str | None,
    sandbox: str | None,
    sandbox_options: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Play groups of the folder BUNDLE as a trainer would, with a Python function as the model.

    The server, its envs, the rows, the trainer's agent function, reward hook and group filter are the real ones.
    Exit status: 0 all well, 1 failures or warnings, 2 wrong usage.
    """
    import asyncio
    import json

    from agent_env.cli.rehearsal_table import LiveTable, print_summary
    from agent_env.plugin.trainer import RowSettings
    from agent_env.testing.policies import load_policy
    from agent_env.testing.rehearsal import rehearse

    reply = load_policy(bundle, policy)

    async def play(table: LiveTable | None) -> Rehearsal:
        return await rehearse(
            bundle,
            reply,
            trainer=trainer,
            split=split,
            groups=groups,
            samples=samples,
            session=session,
            rows=RowSettings(max_turns=max_turns),
            reward=read_reward(reward),
            sandbox=sandbox,
            sandbox_options=read_sandbox_options(sandbox_options, sandbox),
            on_event=table.add if table is not None else None,
            on_progress=table.say if table is not None else None,
        )

    if as_json:
        done = asyncio.run(play(None))
        click.echo(json.dumps(done.as_json(), allow_nan=False))
    else:
        with LiveTable(
            f"{bundle.resolve().name} · {trainer} · policy {policy}", groups * samples, bundle=bundle.resolve().name
        ) as table:
            done = asyncio.run(play(table))
        print_summary(done)
    if done.warnings():
        context.exit(1)
