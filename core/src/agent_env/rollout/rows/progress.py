"""A progress bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@contextmanager
def show_progress() -> Generator[Callable[[str, int, int], None] | None]:
    """Gives ``progress(split, done, total)`` that draws on standard error, `None` when that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bars: dict[str, object] = {}

        def progress(split: str, done: int, total: int) -> None:
            if split not in bars:
                bars[split] = bar.add_task(f"{split}.jsonl", total=total)
            bar.update(bars[split], completed=done)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

        yield progress
