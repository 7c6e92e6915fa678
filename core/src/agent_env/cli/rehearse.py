"""``agentenv rehearse``: play a bundle through a trainer's own functions before a GPU is rented."""

from __future__ import annotations

from pathlib import Path

import click
from agent_env.cli.server_options import read_reward, read_sandbox_options, server_options

_SECONDS = click.FloatRange(0, min_open=True)


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
@click.option("--warm", default=0, show_default=True, type=click.IntRange(0), help="Ready envs to keep for each env.")
@click.option("--session", help="The trainer's session kind, such as v1 or v2 for miles.")
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
    warm: int,
    session: str | None,
    max_turns: int,
    tool_timeout: float,
    reset_timeout: float,
    model_timeout: float,
    reward: str | None,
    sandbox: str | None,
    sandbox_options: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Play groups of the folder BUNDLE as a trainer would, with a Python function as the model.

    The server, its envs, the rows, the trainer's agent function, reward hook and group filter are the real ones.
    Exit status: 0 all well, 1 failures or warnings, 2 wrong usage. Interrupted, it shows what was played.

    \b
    --json prints an object with the keys
      trainer, bundle, split
      groups    list of {task_id, kept, samples}
      summary   {episodes, failures, kept_groups, mean_reward, stderr,
                stderr_over, episodes_per_s, deploy_s, tools_s,
                verifier_s}; the samples of a task depend on each other,
                so mean_reward is the mean of the groups' means and
                stderr its standard error across groups, or with one
                group both are over its samples: stderr_over says which
      warnings  what would waste a training run
      notes     what is worth knowing
    Keys are only ever added.
    """  # noqa: D301
    import json
    import time

    from agent_env.cli.eval_signals import run_until_signal
    from agent_env.cli.rehearsal_table import LiveTable, print_summary
    from agent_env.openenv.open_files import allow_many_files
    from agent_env.plugin.trainer import RowSettings
    from agent_env.testing.policies import load_policy
    from agent_env.testing.rehearsal import rehearse
    from agent_env.testing.rehearsal_report import Rehearsal

    reply = load_policy(bundle, policy)
    settings = RowSettings(
        max_turns=max_turns, tool_timeout=tool_timeout, reset_timeout=reset_timeout, model_timeout=model_timeout
    )

    async def play(table: LiveTable | None) -> Rehearsal:
        return await rehearse(
            bundle,
            reply,
            trainer=trainer,
            split=split,
            groups=groups,
            samples=samples,
            session=session,
            rows=settings,
            reward=read_reward(reward),
            sandbox=sandbox,
            sandbox_options=read_sandbox_options(sandbox_options, sandbox),
            policy=policy,
            warm=warm,
            on_event=table.add if table is not None else None,
            on_progress=table.say if table is not None else None,
        )

    allow_many_files()
    stopped: BaseException | None = None
    if as_json:
        done = run_until_signal(play(None))
        click.echo(json.dumps(done.as_json(), allow_nan=False))
    else:
        name = bundle.resolve().name
        began = time.perf_counter()
        with LiveTable(f"{name} · {trainer} · policy {policy}", groups * samples, bundle=name) as table:
            try:
                done = run_until_signal(play(table))
            except (KeyboardInterrupt, click.exceptions.Exit) as error:
                stopped = error
                seconds = time.perf_counter() - began
                done = Rehearsal(trainer, name, split or "", table.played(), seconds)
        if stopped is not None and not done.groups:
            click.echo("interrupted before anything was played")
            raise stopped
        if stopped is not None:
            click.echo("interrupted; what was played until then:")
        print_summary(done)
        if stopped is not None:
            raise stopped
    if done.warnings():
        context.exit(1)
