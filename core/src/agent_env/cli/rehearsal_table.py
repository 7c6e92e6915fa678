"""The live table and the summary of ``agentenv rehearse``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample
from agent_env.testing.rehearsal_report import counted
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from agent_env.testing.rehearsal_report import Rehearsal

_MOST_ROWS = 20
_QUIET_S = 5.0


class LiveTable:
    """Samples as they end; on a pipe it prints the groups, one line each, and no control characters."""

    def __init__(self, title: str, expected: int, *, bundle: str) -> None:
        self._console = Console()
        self._title = title
        self._expected = expected
        self._bundle = bundle
        self._samples: list[tuple[int, RehearsalSample]] = []
        self._groups: list[RehearsalGroup] = []
        self._numbers: dict[str, int] = {}
        self._note = "starting the server"
        self._next_line = 0.0
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
            self._draw()
        else:
            self._console.print(Text(self._title))
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def say(self, line: str) -> None:
        """Show what the server is doing."""
        self._note = line
        if self._console.is_terminal:
            self._draw()
        elif time.monotonic() >= self._next_line:
            # A build prints hundreds of lines; a failed one has its log in the error.
            self._next_line = time.monotonic() + _QUIET_S
            self._console.print(Text(line), soft_wrap=True)

    def played(self) -> list[RehearsalGroup]:
        """The groups that ended, and what was played of others, which nobody kept."""
        ended = {group.task_id for group in self._groups}
        begun: dict[str, list[RehearsalSample]] = {}
        for _, sample in self._samples:
            if sample.task_id not in ended:
                begun.setdefault(sample.task_id, []).append(sample)
        return [*self._groups, *(RehearsalGroup(task, False, tuple(samples)) for task, samples in begun.items())]  # noqa: FBT003

    def add(self, event: RehearsalSample | RehearsalGroup) -> None:
        """Take the next sample or group."""
        self._note = ""
        if isinstance(event, RehearsalGroup):
            self._groups.append(event)
            if not self._console.is_terminal:
                self._console.print(_group_line(event, self._bundle), soft_wrap=True)
        else:
            number = self._numbers.get(event.task_id, 0)
            self._numbers[event.task_id] = number + 1
            self._samples.append((number, event))
        if self._console.is_terminal:
            self._draw()

    def _draw(self) -> None:
        kept = {group.task_id: group.kept for group in self._groups}
        table = sample_table(self._samples[-_MOST_ROWS:], kept, self._bundle)
        bar = ProgressBar(total=self._expected, completed=len(self._samples), width=40)
        rewards = [sample.reward for _, sample in self._samples if sample.reward is not None]
        mean = f"mean reward {sum(rewards) / len(rewards):.3f}" if rewards else self._note
        line = Text(f" {len(self._samples)}/{self._expected} episodes  {mean}")
        self._live.update(Group(Text(self._title, style="bold"), table, bar, line))


def short_id(task_id: str, bundle: str) -> str:
    """The part of a task's id that tells the tasks of one bundle apart."""
    return task_id.rsplit(f"/{bundle}/", 1)[-1]


def sample_table(samples: list[tuple[int, RehearsalSample]], kept: dict[str, bool], bundle: str) -> Table:
    """One row a sample: group, number in the group, reward, calls, invalid calls, failure, kept or dropped."""
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("group", "left"), ("sample", "right"), ("reward", "right"), ("calls", "right")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("invalid", justify="right")
    table.add_column("failure", overflow="ellipsis", no_wrap=True)
    table.add_column("kept")
    for number, sample in samples:
        state = {True: "[green]yes", False: "[red]no", None: ""}[kept.get(sample.task_id)]
        table.add_row(
            escape(short_id(sample.task_id, bundle)),
            str(number),
            "" if sample.reward is None else f"{sample.reward:.3f}",
            str(sample.tool_calls),
            str(sample.invalid_calls),
            "" if sample.failure is None else f"[red]{escape(str(sample.failure))}",
            state,
        )
    return table


def _group_line(group: RehearsalGroup, bundle: str) -> Text:
    rewards = [sample.reward for sample in group.samples if sample.reward is not None]
    failures = sum(1 for sample in group.samples if sample.failure is not None)
    mean = f"{sum(rewards) / len(rewards):.3f}" if rewards else "none"
    calls = sum(sample.tool_calls for sample in group.samples)
    invalid = sum(sample.invalid_calls for sample in group.samples)
    state = "kept" if group.kept else "dropped"
    return Text(
        f"{short_id(group.task_id, bundle)}: {counted(len(group.samples), 'sample')}, mean reward {mean}, "
        f"{counted(calls, 'call')}, {invalid} invalid, {counted(failures, 'failure')}, {state}"
    )


def print_summary(done: Rehearsal) -> None:
    """The groups, the figures and the warnings; on a pipe the groups were printed as they ended."""
    console = Console()
    if console.is_terminal:
        console.print(_group_table(done))
    figures = done.summary()
    mean = "none" if figures["mean_reward"] is None else f"{figures['mean_reward']:.3f}"
    over = "group means" if figures["stderr_over"] == "groups" else "samples"
    error = "" if figures["stderr"] is None else f" ± {figures['stderr']:.3f} (standard error over {over})"
    console.print(
        f"{counted(figures['episodes'], 'episode')}, {counted(figures['failures'], 'failure')}, "
        f"{figures['kept_groups']} of {counted(len(done.groups), 'group')} kept, "
        f"mean reward {mean}{error}, {figures['episodes_per_s']:.1f} episodes/s",
        highlight=False,
        soft_wrap=True,
    )
    each = max(1, figures["episodes"])
    console.print(
        f"an episode spent {1000 * figures['deploy_s'] / each:.0f} ms in deploy, "
        f"{1000 * figures['tools_s'] / each:.0f} ms in tools, "
        f"{1000 * figures['verifier_s'] / each:.0f} ms in the verifier",
        highlight=False,
        soft_wrap=True,
    )
    for problem in done.left_out:
        console.print(Text(f"left out: {problem}", style="yellow"), soft_wrap=True)
    for note in done.notes():
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
    for warning in done.warnings():
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def _group_table(done: Rehearsal) -> Table:
    table = Table(title=f"{done.bundle} / {done.split}", title_justify="left", box=None, pad_edge=False)
    for heading in ("group", "episodes", "mean reward", "calls", "invalid", "failures", "kept"):
        table.add_column(heading, justify="left" if heading == "group" else "right")
    for group in done.groups:
        rewards = [sample.reward for sample in group.samples if sample.reward is not None]
        table.add_row(
            escape(short_id(group.task_id, done.bundle)),
            str(len(group.samples)),
            f"{sum(rewards) / len(rewards):.3f}" if rewards else "-",
            str(sum(sample.tool_calls for sample in group.samples)),
            str(sum(sample.invalid_calls for sample in group.samples)),
            str(sum(1 for sample in group.samples if sample.failure is not None)),
            "[green]yes" if group.kept else "[red]no",
        )
    return table
