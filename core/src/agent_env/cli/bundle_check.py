"""``agentenv bundle check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_env.errors import Problem


@click.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--portable", is_flag=True, help="Also say which parts other readers of the bundle format refuse.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of lines.")
def command(*, path: Path, portable: bool, as_json: bool) -> None:
    """Say everything that is wrong in the bundle in the folder PATH.

    Every line of every seed file is read and put into its task. Notes name what is accepted but means nothing. The
    exit code is 1 when there are problems, whether they leave a task out or stop the whole bundle; else 0.

    \b
    --json prints an object with the keys
      bundle    name of the bundle
      path      its folder
      served    number of tasks that would be served
      problems  list of {path, line, task, step, message}; line, task and
                step are null where there is none
      notes     likewise
      portable  likewise: what other readers refuse; only with --portable
    Keys are only ever added.
    """  # noqa: D301
    from agent_env.bundle.check import check_bundle
    from agent_env.cli.output import print_json

    result = check_bundle(path, portable=portable)
    if as_json:
        report: dict[str, Any] = {
            "bundle": result.name,
            "path": str(result.path),
            "served": result.served,
            "problems": [_fields(problem) for problem in result.problems],
            "notes": [_fields(problem) for problem in result.notes],
        }
        if portable:
            report["portable"] = [_fields(problem) for problem in result.portable]
        print_json(report)
    else:
        _print("problem", result.problems, "red")
        _print("note", result.notes, "yellow")
        _print("not portable", result.portable, "yellow")
        click.echo(_summary(len(result.problems), len(result.notes), result.name, result.served))
        if portable and not result.portable:
            click.echo("Other readers of the format find nothing here that they refuse.")
    if result.problems:
        raise click.exceptions.Exit(1)


def _print(word: str, problems: tuple[Problem, ...], colour: str) -> None:
    for problem in problems:
        click.echo(f"{click.style(f'{word}:', fg=colour)} {problem}")


def _summary(problems: int, notes: int, name: str, served: int) -> str:
    found = f"{problems} problem{'' if problems == 1 else 's'}" if problems else "no problems"
    also = f", {notes} note{'' if notes == 1 else 's'}" if notes else ""
    return f"{name}: {found}{also}; {served} task{'' if served == 1 else 's'} can be served"


def _text(name: str) -> str:
    """A file name that is no Unicode text, made into text."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _fields(problem: Problem) -> dict[str, Any]:
    return {
        "path": _text(problem.path.as_posix()),
        "line": problem.line,
        "task": None if problem.task is None else _text(problem.task),
        "step": problem.step,
        "message": problem.message,
    }
