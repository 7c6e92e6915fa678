"""Reads ``aliases.toml``: further names of agents and envs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle.names import ALIAS, did_you_mean
from agent_env.bundle.tomltext import TomlFile

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from agent_env.bundle.entities import Entities, Kind
    from agent_env.bundle.findings import Findings

_TABLES: Final[dict[str, Kind]] = {"agents": "agent", "envs": "env"}


def read_aliases(path: Path, folders: dict[str, Collection[str]], entities: Entities, findings: Findings) -> None:
    """Declare the aliases; ``folders`` holds the folder names of ``agents`` and ``envs``."""
    toml = TomlFile(path, findings.bundle)
    toml.refuse_unknown(tuple(_TABLES))
    for table, kind in _TABLES.items():
        value = toml.table.get(table, {})
        if not isinstance(value, dict):
            toml.problem(table, f'[{table}] has to be a table of <folder> = ["alias", ...]')
            continue
        for folder, aliases in cast("dict[str, Any]", value).items():
            if folder not in folders[table]:
                toml.problem(folder, f"there is no folder {table}/{folder}{did_you_mean(folder, folders[table])}")
            elif not isinstance(aliases, list):
                toml.problem(folder, f"the aliases of {folder!r} have to be a list of strings")
            else:
                for alias in cast("list[object]", aliases):
                    _declare(toml, kind, folder, alias, entities)


def _declare(toml: TomlFile, kind: Kind, folder: str, alias: object, entities: Entities) -> None:
    if not isinstance(alias, str) or ALIAS.fullmatch(alias) is None:
        toml.problem(folder, f"the alias {alias!r} has to be 1 to 64 of a-z, 0-9 and -")
        return
    other = entities.folder(kind, alias)
    if other == folder and alias == folder:
        return  # says what is so anyway
    if other is not None:
        toml.problem(folder, f"the alias {alias!r} of {folder!r} is already a name of {other!r}")
        return
    entities.declare(kind, folder, alias)
