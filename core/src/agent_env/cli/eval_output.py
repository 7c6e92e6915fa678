"""The progress bar and the summary of ``agentenv eval``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import click
from agent_env.cli.output import print_table

if TYPE_CHECKING:
    from types import TracebackType

    from agent_env.evaluation.record import EpisodeRecord

_MOST_TASKS = 60
QUIET_S = 30.0
"""Seconds between lines where there is no terminal; a short run prints none."""


class Progress:
    """A bar with the running mean on a terminal's standard error; elsewhere a line now and then."""

    def __init__(self, title: str) -> None:
        import sys

        self._title = title
        self._shown = sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._rewards: dict[tuple[str, int], float | None] = {}
        self._sum = 0.0
        self._failed = 0
        self._expected = 0
        self._next_line = time.monotonic() + QUIET_S

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, note="starting the server")
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """What the server is doing."""
        if self._bar is not None:
            self._bar.update(self._task, note=line[:100])
        else:
            self._line(line)

    def start(self, expected: int, records: list[EpisodeRecord]) -> None:
        """Episodes in all, and those that there are already."""
        for record in records:
            self._count(record)
        self._expected = expected
        if 0 < len(records) < expected:
            click.echo(f"{len(records)} of {expected} episodes are there already", err=True)
        if self._bar is not None:
            self._bar.update(self._task, total=expected, completed=len(records), note=self._note())

    def add(self, record: EpisodeRecord) -> None:
        """The next episode."""
        self._count(record)
        if self._bar is not None:
            self._bar.update(self._task, completed=len(self._rewards), note=self._note())
        else:
            self._line(f"{len(self._rewards)} of {self._expected} episodes, {self._note()}")

    def _line(self, text: str) -> None:
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + QUIET_S
            click.echo(text, err=True)

    def _count(self, record: EpisodeRecord) -> None:
        """One that is played again takes the place of the one before."""
        if record.key in self._rewards:
            before = self._rewards[record.key]
            self._sum -= before or 0.0
            self._failed -= before is None
        self._rewards[record.key] = record.reward
        self._sum += record.reward or 0.0
        self._failed += record.reward is None

    def _note(self) -> str:
        scored = len(self._rewards) - self._failed
        mean = f"mean {self._sum / scored:.3f}" if scored else "no score yet"
        return f"{mean}, {self._failed} failed" if self._failed else mean


def print_summary(summary: dict[str, Any]) -> None:
    """The tasks, the figures and the warnings, on standard output."""
    from agent_env.cli.errors import print_warning
    from agent_env.evaluation.tables import with_error

    rows = [
        [
            one["task"],
            str(one["episodes"]),
            with_error(one["mean_reward"], one["stderr"]),
            f"{one['solved']}/{one['scored']}",
            str(one["failed"]),
            f"{one['tokens']:,}",
        ]
        for one in summary["tasks"][:_MOST_TASKS]
    ]
    print_table(("task", "episodes", "mean reward", "solved", "failed", "tokens"), rows)
    more = len(summary["tasks"]) - _MOST_TASKS
    if more > 0:
        click.echo(f"… and {more} further tasks, in summary.json")
    click.echo()
    click.echo(f"{summary['bundle']} / {summary['split']}, {summary['model']}")
    click.echo(f"  mean reward  {with_error(summary['mean_reward'], summary['stderr'])}  (standard error across tasks)")
    for size, figures in summary["pass"].items():
        if figures["mean"] is not None:
            click.echo(
                f"  pass@{size:<7} {with_error(figures['mean'], figures['stderr'])}  "
                f"(reward ≥ {summary['pass_at_reward']:g}, {figures['tasks']} tasks)"
            )
    kinds = ", ".join(f"{count}x {kind}" for kind, count in summary["failures"].items())
    click.echo(
        f"  episodes     {summary['scored']} scored, {summary['failed']} failed{f' ({kinds})' if kinds else ''}, "
        f"{summary['expected_episodes']} expected"
    )
    click.echo(
        f"  calls        {summary['tool_calls']} run, {summary['invalid_calls']} invalid, "
        f"{summary['unknown_calls']} of unknown tools, {summary['unparsed_calls']} unparsed"
    )
    tokens = summary["tokens"]
    cost = "" if summary["cost"] is None else f", cost {summary['cost']:.4f}"
    click.echo(f"  tokens       {tokens['prompt']:,} in, {tokens['completion']:,} out{cost}")
    click.echo(f"  run          {summary['run']}")
    for problem in summary["left_out"]:
        print_warning(f"left out: {problem}")
    for text in summary["warnings"]:
        print_warning(text)
    if summary["stopped"] is not None:
        print_warning(f"the run stopped early: {summary['stopped']}. The same command continues it")
