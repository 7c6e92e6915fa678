"""Plots as inline SVG: no script, no font, no colour of their own; the page's style sheet has those."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.evaluation.summary import TaskFigures

_WIDTH, _HEIGHT = 460.0, 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 12.0, 34.0
_MOST_BARS = 40


def histogram(values: Sequence[float], *, label: str, bins: int = 20) -> str:
    """How often values fall where; an empty plot says so."""
    if not values:
        return _nothing(label)
    low, high = min(values), max(values)
    if label == "reward" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if low == high:
        spread = max(0.5, abs(low) / 4)  # so that its ticks differ
        low, high = low - spread, high + spread
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    most = max(counts)
    width = (_WIDTH - _LEFT - _RIGHT) / bins
    parts: list[str] = []
    for place, count in enumerate(counts):
        height = (_HEIGHT - _TOP - _BOTTOM) * count / most
        start = low + (high - low) * place / bins
        tip = f"{number(start)} to {number(start + (high - low) / bins)}: {count}"
        if count:
            parts.append(
                f'<rect class="bar" x="{_LEFT + place * width + 0.5:.2f}" y="{_HEIGHT - _BOTTOM - height:.2f}" '
                f'width="{width - 1:.2f}" height="{height:.2f}"><title>{escape(tip)}</title></rect>'
            )
    return _frame("".join(parts), low, high, most, label)


def task_bars(tasks: Sequence[TaskFigures]) -> str:
    """Mean reward of each task with its standard error; of many tasks the lowest and the highest."""
    scored = sorted((one for one in tasks if one.mean is not None), key=lambda one: (one.mean or 0.0, one.index))
    if not scored:
        return _nothing("mean reward by task")
    left_out = max(0, len(scored) - _MOST_BARS)
    shown = [*scored[: _MOST_BARS // 2], *scored[-_MOST_BARS // 2 :]] if left_out else scored
    means = [one.mean or 0.0 for one in shown]
    low, high = min(0.0, *means), max(1.0, *means)
    label_width, line = 210.0, 16.0
    height = line * len(shown) + 30 + (line if left_out else 0)
    scale = (_WIDTH * 2 - label_width - 60) / (high - low)
    parts: list[str] = []
    y = 6.0
    for place, one in enumerate(shown):
        if left_out and place == _MOST_BARS // 2:
            parts.append(f'<text class="dim" x="{label_width}" y="{y + 12:.1f}">… {left_out} tasks between …</text>')
            y += line
        parts.append(_task_bar(one, y, label_width, scale, low))
        y += line
    zero = label_width - low * scale
    parts.append(f'<line class="axis" x1="{zero:.2f}" y1="2" x2="{zero:.2f}" y2="{y + 2:.1f}"/>')
    for value in _ticks(low, high):
        x = label_width + (value - low) * scale
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.2f}" y="{y + 16:.1f}">{number(value)}</text>')
    return _svg(_WIDTH * 2, height, "".join(parts), "mean reward by task")


def _task_bar(one: TaskFigures, y: float, left: float, scale: float, low: float) -> str:
    mean = one.mean or 0.0
    error = one.stderr
    zero, end = left - low * scale, left + (mean - low) * scale
    name = one.task if len(one.task) <= 32 else f"…{one.task[-31:]}"
    tip = (
        f"{one.task}: {number(mean)}"
        + ("" if error is None else f" ± {number(error)}")
        + f", {len(one.rewards)} scored"
    )
    x, width = min(zero, end), max(abs(end - zero), 1)
    parts = [
        f"<g><title>{escape(tip)}</title>",
        f'<text class="tick" text-anchor="end" x="{left - 6}" y="{y + 12:.1f}">{escape(name)}</text>',
        f'<rect class="bar" x="{x:.2f}" y="{y + 2:.1f}" width="{width:.2f}" height="12"/>',
    ]
    if error:
        a, b = end - error * scale, end + error * scale
        parts.append(f'<line class="error" x1="{a:.2f}" y1="{y + 8:.1f}" x2="{b:.2f}" y2="{y + 8:.1f}"/>')
    beside = max(end, zero) + 6 + (error or 0) * scale
    parts.append(f'<text class="tick" x="{beside:.2f}" y="{y + 12:.1f}">{number(mean)}</text></g>')
    return "".join(parts)


def number(value: float) -> str:
    """A number as people read it: three digits that count, no zeros at the end."""
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return "0" if text == "-0" else text


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [number_ * step for number_ in range(first, math.floor(high / step + 1e-9) + 1)]


def _frame(inner: str, low: float, high: float, most: int, label: str) -> str:
    floor = _HEIGHT - _BOTTOM
    parts = [f'<line class="axis" x1="{_LEFT}" y1="{floor}" x2="{_WIDTH - _RIGHT}" y2="{floor}"/>']
    for value in _ticks(low, high):
        x = _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.2f}" y="{floor + 15}">{number(value)}</text>')
    for count in sorted({most, most // 2} - {0}):
        y = floor - (floor - _TOP) * count / most
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.2f}" x2="{_WIDTH - _RIGHT}" y2="{y:.2f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{_LEFT - 6}" y="{y + 4:.2f}">{number(count)}</text>')
    parts.append(f'<text class="dim" text-anchor="middle" x="{_WIDTH / 2}" y="{_HEIGHT - 4}">{escape(label)}</text>')
    parts.append(inner)  # over the grid
    return _svg(_WIDTH, _HEIGHT, "".join(parts), label)


def _nothing(label: str) -> str:
    words = f"{label}: nothing to show"
    text = f'<text class="dim" text-anchor="middle" x="{_WIDTH / 2}" y="{_HEIGHT / 2}">{escape(words)}</text>'
    return _svg(_WIDTH, _HEIGHT, text, label)


def _svg(width: float, height: float, inner: str, label: str) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">{inner}</svg>'
