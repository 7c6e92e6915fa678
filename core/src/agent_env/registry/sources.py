"""Where plugins come from: the entry points of installed distributions, and modules given by a test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent_env.plugin import ENTRY_POINT_GROUP
from agent_env.registry.text import one_line, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.metadata import Distribution, EntryPoint

CORE: Final = "agentenv-core"


def normalized(name: str) -> str:
    """A distribution's or entry point's name for comparisons: case and ``-``, ``_``, ``.`` make no difference."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


@dataclass(frozen=True, slots=True)
class Source:
    """A plugin that was found and not yet imported.

    Attributes:
        distribution: name of its distribution.
        version: version of it, ``""`` when unknown.
        entry_point: name of the entry point.
        home_page: address of the project, or ``""``.
        load: imports and returns the hook module.
        value: the entry point's import string, for messages.
        problem: why it cannot even be looked at, or ``""``.
    """

    distribution: str
    version: str
    entry_point: str
    home_page: str
    load: Callable[[], object]
    value: str = ""
    problem: str = ""

    @property
    def label(self) -> str:
        """Distribution and version, as messages name it."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def is_core(self) -> bool:
        """Whether it belongs to the core, which cannot be switched off."""
        return normalized(self.distribution) == CORE

    def answers_to(self, name: str) -> bool:
        """Whether a user who writes ``name`` means this plugin."""
        return normalized(name) in {normalized(self.distribution), normalized(self.entry_point)}


def given(plugins: Mapping[str, object]) -> Iterator[Source]:
    """Sources of explicit modules, ``{"<distribution>:<entry point>": module}``."""
    for key, module in plugins.items():
        distribution, _, entry_point = key.rpartition(":")

        def load(module: object = module) -> object:
            return module

        yield Source(distribution or key, "", entry_point, "", load)


def installed() -> Iterator[Source]:
    """Sources of every installed distribution; one with unreadable metadata is a source with a problem."""
    from importlib.metadata import distributions

    seen: set[str] = set()
    for distribution in distributions():
        if not _mentions_group(distribution):  # cheap: of most distributions nothing else is read
            continue
        name = _name(distribution)
        if name is None:
            where = distribution.locate_file("")
            yield Source("unknown", "", "", "", _nothing, problem=f"a distribution in {where} has no name")
        elif normalized(name) not in seen and not _shadowed(distribution, name):
            seen.add(normalized(name))
            yield from _of_distribution(distribution, name)


def _of_distribution(distribution: Distribution, name: str) -> Iterator[Source]:
    version = _version(distribution)
    try:
        points = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
    except Exception as error:  # noqa: BLE001 - whatever is wrong in a stranger's metadata stays the stranger's
        yield Source(name, version, "", "", _nothing, problem=f"entry points: {reason_of(error)}")
        return
    home_page = _home_page(distribution) if points else ""
    for point in points:
        yield Source(name, version, point.name, home_page, _loader(point), point.value)


def _nothing() -> object:
    return None


def _shadowed(distribution: Distribution, name: str) -> bool:
    """Whether another distribution of this name comes earlier on the module path."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as first_named

    try:
        return first_named(name).locate_file("") != distribution.locate_file("")
    except (PackageNotFoundError, ValueError):
        return False


def _loader(point: EntryPoint) -> Callable[[], object]:
    def load() -> object:
        loaded: object = point.load()
        return loaded

    return load


def _mentions_group(distribution: Distribution) -> bool:
    try:
        return f"[{ENTRY_POINT_GROUP}]" in (distribution.read_text("entry_points.txt") or "")
    except Exception:  # noqa: BLE001
        return False


def _name(distribution: Distribution) -> str | None:
    try:
        name: str | None = distribution.metadata["Name"]
    except Exception:  # noqa: BLE001
        return None
    return name or None


def _version(distribution: Distribution) -> str:
    try:
        return one_line(distribution.version or "")
    except Exception:  # noqa: BLE001
        return ""


def _home_page(distribution: Distribution) -> str:
    try:
        metadata = distribution.metadata
        urls: dict[str, str] = {}
        for line in metadata.get_all("Project-URL") or []:
            label, _, url = str(line).partition(",")
            urls.setdefault(normalized(label), url.strip())
        found = metadata["Home-page"] or next(
            (
                urls[key]
                for key in ("homepage", "home-page", "home", "repository", "source", "documentation")
                if key in urls
            ),
            "",
        )
    except Exception:  # noqa: BLE001
        return ""
    return one_line(found or "")
