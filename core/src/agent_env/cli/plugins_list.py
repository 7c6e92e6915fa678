"""``agentenv plugins list``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.registry import PluginRow

_SHOWN: Final = frozenset({"sandbox", "reward", "parser", "trainer"})
_CORE: Final = "agentenv-core"
_BROKEN: Final = frozenset({"failed", "clash"})


_HELP: Final = """List plugins: what each offers, the distribution it comes from, and whether it works.

What failed, is switched off or clashes is always shown. On a narrow terminal the columns of home page and summary are
left out; in a pipe they are not. Without --check nothing is imported but the plugins' lists
of what they offer, and the exit code is 0 whatever they say.

\b
--json prints a list of objects, all values strings, with the keys
  kind          sandbox, reward, parser, trainer, step, command, or
                plugin for a plugin as a whole
  name          what users write; the entry point for a plugin as a whole
  summary       one line
  distribution  the package that was installed
  version       its version
  entry_point   name of its entry point in the group agentenv
  status        ok, failed, disabled or clash
  reason        why it is not ok
  home_page     address of the project
A value that is not known is an empty string. Keys are only ever added.
"""


@click.command("list", help=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
@click.option("--check", is_flag=True, help="Import everything offered, and exit 1 when anything failed or clashes.")
@click.option("--all", "show_all", is_flag=True, help="Also show the core's task steps and commands that are fine.")
def command(*, as_json: bool, check: bool, show_all: bool) -> None:
    """List plugins."""
    from agent_env.cli.errors import print_warning
    from agent_env.cli.output import print_json, print_table
    from agent_env.registry import default_registry

    registry = default_registry()
    found = registry.report(load=check)
    rows = [row for row in found if show_all or _worth_a_line(row)]
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        columns = _columns(rows, _width())
        print_table(columns, [[_CELLS[column](row) for column in columns] for row in rows])
    for note in registry.notes:
        print_warning(note)
    if check and any(row.status in _BROKEN for row in found):
        raise click.exceptions.Exit(1)


def _width() -> int | None:
    """Columns of the terminal, `None` where the output is none and may be as wide as it needs to be."""
    import os
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def _columns(rows: Sequence[PluginRow], width: int | None) -> list[str]:
    """The columns that have room; the last one wraps. The home page goes first, then the summary."""
    columns = list(_CELLS)
    for dropped in ("HOME PAGE", "SUMMARY"):
        needed = sum(2 + max(len(one) for one in (name, *map(_CELLS[name], rows))) for name in columns[:-1])
        if width is None or needed + len(_LAST) <= width:
            break
        columns.remove(dropped)
    return columns


def _worth_a_line(row: PluginRow) -> bool:
    """Commands stand in --help, and the core's steps in every bundle; what others add is shown, and what is wrong."""
    return row.kind in _SHOWN or (row.kind == "step" and row.distribution != _CORE) or row.status != "ok"


def _status(row: PluginRow) -> str:
    return f"{row.status}: {row.reason}" if row.reason else row.status


_LAST: Final = "STATUS"
_CELLS: Final[dict[str, Callable[[PluginRow], str]]] = {
    "KIND": lambda row: row.kind,
    "NAME": lambda row: row.name or "-",
    "SUMMARY": lambda row: row.summary or "-",
    "PLUGIN": lambda row: row.plugin,
    "HOME PAGE": lambda row: row.home_page or "-",
    _LAST: _status,
}
