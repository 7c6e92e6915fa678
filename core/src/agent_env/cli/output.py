"""How commands print: tables that stay whole in a pipe, and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_json(value: Any) -> None:
    """``value`` as indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns on stdout, never cut: a terminal wraps the last one and a pipe gets all of it."""
    lines = [list(columns), *(list(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        click.echo("  ".join([*cells, line[-1]]).rstrip())
