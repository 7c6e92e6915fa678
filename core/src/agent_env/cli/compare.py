"""``agentenv compare``: two runs against each other."""

from __future__ import annotations

from pathlib import Path

import click

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("compare")
@click.argument("run_a", type=_FOLDER)
@click.argument("run_b", type=_FOLDER)
@click.option("--level", default=0.95, show_default=True, type=click.FloatRange(0.5, 0.999), help="Confidence.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@click.option(
    "--tasks", default=10, show_default=True, type=click.IntRange(0), help="Tasks to show, biggest change first."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(run_a: Path, run_b: Path, level: float, seed: int, tasks: int, *, as_json: bool) -> None:
    """Pair the tasks of RUN_A and RUN_B and say how much better B is."""
    from agent_env.cli.errors import print_warning
    from agent_env.cli.output import print_json, print_table
    from agent_env.evaluation.compare import compare_runs

    done = compare_runs(run_a, run_b, level=level, seed=seed)
    figures = done.as_json()
    if as_json:
        print_json(figures)
        return
    for key in ("model", "base_url"):
        if key in done.different:
            click.echo(f"{key}: A {done.different[key][0]}, B {done.different[key][1]}")
    click.echo(f"A {figures['mean_a']:.4f}, B {figures['mean_b']:.4f}, mean reward over {len(done.pairs)} tasks")
    click.echo(f"B - A = {figures['difference']:+.4f}")
    for name, interval in (("bootstrap", done.bootstrap), ("Student's t", done.student)):
        if interval is not None:
            click.echo(f"  {100 * level:g} % interval {interval.low:+.4f} to {interval.high:+.4f} ({name})")
    click.echo(f"{done.verdict} at {100 * level:g} % confidence")
    click.echo(f"B is better in {figures['better']} tasks, worse in {figures['worse']}, equal in {figures['equal']}")
    shown = [pair for pair in done.pairs[:tasks] if pair.difference]
    if shown:
        click.echo()
        rows = [[pair.task, f"{pair.a:.3f}", f"{pair.b:.3f}", f"{pair.difference:+.3f}"] for pair in shown]
        print_table(("task", "A", "B", "B - A"), rows)
    for text in done.warnings:
        print_warning(text)
