"""The tables of a report that are there without a script: tasks, failures, settings."""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING

from agent_env.evaluation.plots import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.evaluation.record import EpisodeRecord
    from agent_env.evaluation.settings import EvalSettings
    from agent_env.evaluation.summary import Prices, TaskFigures

_MOST_FAILURES = 50
_MOST_TASKS_NAMED = 3


def with_error(mean: float | None, stderr: float | None) -> str:
    """``0.512 ± 0.031``."""
    if mean is None:
        return "none"
    return f"{mean:.3f}" if stderr is None else f"{mean:.3f} ± {stderr:.3f}"


def task_table(tasks: Sequence[TaskFigures], records: Sequence[EpisodeRecord], prices: Prices | None) -> str:
    """A row for each task; a page's script makes it sortable by the values beside the texts."""
    counts: dict[str, dict[str, float]] = {}
    for record in records:
        one = counts.setdefault(record.task, {"turns": 0.0, "odd": 0.0, "seconds": 0.0, "cost": 0.0})
        one["turns"] += record.turns
        one["odd"] += record.odd_calls
        one["seconds"] += record.seconds.get("total", 0.0)
        one["cost"] += 0.0 if prices is None else prices.cost(record.tokens)
    heads = ["task", "scored", "failed", "mean reward", "lowest", "highest", "solved", "turns", "invalid", "tokens"]
    heads += ["seconds", *(["cost"] if prices is not None else [])]
    rows: list[str] = []
    for task in tasks:
        one = counts[task.task]
        episodes = len(task.rewards) + task.failed
        low, high = (min(task.rewards), max(task.rewards)) if task.rewards else (None, None)
        cells: list[tuple[float | None, str]] = [
            (len(task.rewards), str(len(task.rewards))),
            (task.failed, str(task.failed)),
            (task.mean, with_error(task.mean, task.stderr)),
            (low, "" if low is None else number(low)),
            (high, "" if high is None else number(high)),
            (task.solved, f"{task.solved}/{len(task.rewards)}"),
            (one["turns"] / episodes, number(one["turns"] / episodes)),
            (one["odd"], number(one["odd"])),
            (task.tokens, f"{task.tokens:,}"),
            (one["seconds"] / episodes, number(one["seconds"] / episodes)),
        ]
        if prices is not None:
            cells.append((one["cost"], f"{one['cost']:.4f}"))
        shown = "".join(
            f'<td data-v="{"" if value is None else value}"{_mark(place, value)}>{escape(text)}</td>'
            for place, (value, text) in enumerate(cells)
        )
        rows.append(f'<tr class="task"><td data-v="{escape(task.task)}">{escape(task.task)}</td>{shown}</tr>')
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return (
        f'<div class="scroll"><table id="tasks"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        '</div><p class="note">turns and seconds: means of an episode; invalid: invalid, unknown or unparsed calls</p>'
    )


def _mark(place: int, value: float | None) -> str:
    return ' class="failed"' if place == 1 and value else ""


def failure_table(records: Sequence[EpisodeRecord]) -> str:
    """Failures that differ in numbers only are one row, the most frequent first; empty without any."""
    groups: dict[tuple[str, str], list[EpisodeRecord]] = {}
    for record in records:
        if record.failure is not None:
            same = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+", "#", record.failure.message)
            groups.setdefault((record.failure.kind, same), []).append(record)
    if not groups:
        return ""
    rows: list[str] = []
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    for group in ordered[:_MOST_FAILURES]:
        failure = group[0].failure
        assert failure is not None
        names = list(dict.fromkeys(one.task for one in group))
        more = f" and {len(names) - _MOST_TASKS_NAMED} more" if len(names) > _MOST_TASKS_NAMED else ""
        rows.append(
            f'<tr><td>{len(group)}</td><td class="failed">{escape(failure.kind)}</td>'
            f"<td>{escape(failure.message)}</td><td>{escape(', '.join(names[:_MOST_TASKS_NAMED]))}{more}</td></tr>"
        )
    left = len(ordered) - _MOST_FAILURES
    rest = f'<p class="note">and {left} further kinds of failure, in the table of episodes</p>' if left > 0 else ""
    return (
        "<section><h2>Failures</h2><p>These episodes have no score and are in no figure of rewards.</p>"
        '<div class="scroll"><table id="failures"><thead><tr><th>episodes</th><th>kind</th><th>message</th>'
        f"<th>tasks</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>{rest}</section>"
    )


def settings_table(settings: EvalSettings) -> str:
    """Name and value of every setting."""
    rows: list[str] = []
    for key, value in settings.as_json().items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows.append(f"<tr><th>{escape(key)}</th><td>{escape(shown)}</td></tr>")
    return f"<table>{''.join(rows)}</table>"
