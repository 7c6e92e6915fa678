"""``agentenv eval``: how well a model plays a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from agent_env.cli.server_options import read_reward, read_sandbox_options, read_token, server_options

if TYPE_CHECKING:
    from agent_env.cli.eval_output import Progress
    from agent_env.evaluation.run import EvalRun
    from agent_env.evaluation.summary import Prices

_SECONDS = click.FloatRange(0, min_open=True)
_COUNT = click.IntRange(1)


@click.command("eval")
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False)
@click.option("--url", help="Play against this running server instead of serving BUNDLE here.")
@click.option("--token-var", metavar="NAME", help="Environment variable with the token of --url's server.")
@click.option("--base-url", required=True, help="OpenAI-compatible chat endpoint, with or without /v1.")
@click.option("--model", required=True, help="Name of the model, as the endpoint knows it.")
@click.option("--api-key-var", metavar="NAME", help="Environment variable with the endpoint's key.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of the run.  [default: eval-runs/…]"
)
@click.option("--split", help="Split to play.  [default: eval where there is one, else all]")
@click.option("--limit", type=_COUNT, help="Play the first tasks of the split only.")
@click.option("--k", default=1, show_default=True, type=_COUNT, help="Episodes of each task.")
@click.option("--concurrency", default=8, show_default=True, type=_COUNT, help="Episodes at once.")
@click.option("--temperature", type=click.FloatRange(0), help="Sampling temperature.  [default: the endpoint's]")
@click.option("--top-p", type=click.FloatRange(0, 1), help="Nucleus of sampling.  [default: the endpoint's]")
@click.option("--max-tokens", type=_COUNT, help="Tokens of one reply.  [default: the endpoint's]")
@click.option("--seed", type=int, help="Seed of sampling; repeat r of a task sends SEED + r.")
@click.option("--extra", multiple=True, metavar="KEY=JSON", help="Further field of every request; may be repeated.")
@click.option("--parser", metavar="NAME", help="Read calls from the reply's text with this parser plugin.")
@click.option("--task-seed", default=0, show_default=True, help="Seed of tasks that take one, alike for all repeats.")
@click.option("--max-turns", default=16, show_default=True, type=_COUNT, help="Model replies in an episode.")
@click.option("--max-episode-tokens", type=_COUNT, help="Tokens that one episode may spend before it is scored.")
@click.option("--max-total-tokens", type=_COUNT, help="Tokens of the run after which no episode is started.")
@click.option("--tool-timeout", default=60.0, show_default=True, type=_SECONDS, help="Seconds for a tool call.")
@click.option(
    "--reset-timeout", default=600.0, show_default=True, type=_SECONDS, help="Seconds for reset and verifier."
)
@click.option("--model-timeout", default=600.0, show_default=True, type=_SECONDS, help="Seconds for a reply.")
@click.option("--retries", default=1, show_default=True, type=click.IntRange(0), help="Retries of a failed episode.")
@click.option("--retry-failed", is_flag=True, help="Play again what failed when the run was started before.")
@click.option("--moved", is_flag=True, help="Continue a run in --out whose endpoint had another --base-url.")
@click.option("--model-retries", default=6, show_default=True, type=click.IntRange(0), help="Retries of a reply.")
@click.option(
    "--stop-after-failures",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    help="Failures one after another at which the run stops; 0 = never.",
)
@click.option("--pass-at", default=1.0, show_default=True, help="Reward from which an episode is solved.")
@click.option("--price-in", type=click.FloatRange(0), help="Price of a million prompt tokens.")
@click.option("--price-out", type=click.FloatRange(0), help="Price of a million completion tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@server_options
@click.pass_context
def command(
    context: click.Context,
    bundle: Path | None,
    url: str | None,
    token_var: str | None,
    base_url: str,
    model: str,
    api_key_var: str | None,
    out: Path | None,
    split: str | None,
    limit: int | None,
    k: int,
    concurrency: int,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    seed: int | None,
    extra: tuple[str, ...],
    parser: str | None,
    task_seed: int,
    max_turns: int,
    max_episode_tokens: int | None,
    max_total_tokens: int | None,
    tool_timeout: float,
    reset_timeout: float,
    model_timeout: float,
    retries: int,
    model_retries: int,
    stop_after_failures: int,
    pass_at: float,
    price_in: float | None,
    price_out: float | None,
    reward: str | None,
    sandbox: str | None,
    sandbox_options: tuple[str, ...],
    *,
    retry_failed: bool,
    moved: bool,
    as_json: bool,
) -> None:
    """Play the tasks of BUNDLE with a model behind an OpenAI-compatible endpoint and say how well it does.

    Every episode is on disk as soon as it ends: the same command continues a run that was stopped. Exit status: 0 all
    episodes have a score, 1 some have none or the run stopped early, 2 wrong usage.
    """
    import json

    from agent_env.cli.eval_output import Progress, print_summary
    from agent_env.cli.eval_signals import run_until_signal
    from agent_env.cli.output import print_json
    from agent_env.evaluation.address import read_key
    from agent_env.evaluation.plan import EvalPlan
    from agent_env.evaluation.run import evaluate
    from agent_env.evaluation.settings import read_extra
    from agent_env.evaluation.store import write_whole
    from agent_env.evaluation.summary import summarize
    from agent_env.openenv.open_files import allow_many_files

    named = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    sampling = read_extra(extra, {key: value for key, value in named.items() if value is not None})
    prices = read_prices(price_in, price_out)
    allow_many_files()

    async def play(progress: Progress) -> EvalRun:
        return await evaluate(
            EvalPlan(
                bundle=bundle,
                url=url,
                server_token=read_token(token_var),
                base_url=base_url,
                model=model,
                key=read_key(api_key_var),
                out=out,
                split=split,
                limit=limit,
                k=k,
                concurrency=concurrency,
                sampling=sampling,
                seed=seed,
                task_seed=task_seed,
                parser=parser,
                reward=read_reward(reward),
                reward_name=reward,
                sandbox=sandbox,
                sandbox_options=read_sandbox_options(sandbox_options, sandbox),
                max_turns=max_turns,
                max_episode_tokens=max_episode_tokens,
                max_total_tokens=max_total_tokens,
                tool_timeout=tool_timeout,
                reset_timeout=reset_timeout,
                model_timeout=model_timeout,
                retries=retries,
                retry_failed=retry_failed,
                moved=moved,
                model_retries=model_retries,
                stop_after_failures=stop_after_failures,
                pass_at=pass_at,
                on_start=progress.start,
                on_episode=progress.add,
                on_progress=progress.say,
            )
        )

    try:
        with Progress(model) as progress:
            run = run_until_signal(play(progress))
    except (KeyboardInterrupt, click.exceptions.Exit):
        click.echo("stopped: the same command continues the run", err=True)
        raise
    summary = {
        "run": str(run.folder),
        "stopped": run.stopped,
        **summarize(run.settings, run.records, prices=prices, wasted=run.wasted),
        "left_out": list(run.left_out),
    }
    write_whole(run.folder / "summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    if run.stopped is not None or summary["failed"] or not summary["complete"]:
        context.exit(1)


def read_prices(price_in: float | None, price_out: float | None) -> Prices | None:
    """Both prices or none.

    Raises:
        UsageError: one of them only, or one is no finite number.
    """
    from math import isfinite

    from agent_env.errors import UsageError
    from agent_env.evaluation.summary import Prices

    if price_in is None and price_out is None:
        return None
    if price_in is None or price_out is None:
        raise UsageError("a cost needs both --price-in and --price-out; give 0 for what is free")
    if not (isfinite(price_in) and isfinite(price_out)):
        raise UsageError("--price-in and --price-out must be finite numbers")
    return Prices(price_in, price_out)
