"""The tools of an episode as one list, shared by all episodes whose envs list the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from agent_env.errors import EnvError
from agent_env.plugin.tools import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

END_TURN = "end_turn"
RESERVED = frozenset({"reset", "step", "state", "close", END_TURN})
"""Names that the OpenEnv wire or the engine uses itself: an env that offers one is refused."""

END_TURN_TOOL = ToolSpec(
    name=END_TURN,
    description="End your turn with a final response.",
    input_schema={
        "type": "object",
        "properties": {"response": {"type": "string", "description": "Your final response for this turn."}},
        "required": ["response"],
        "additionalProperties": False,
    },
)

Part = tuple[str, str, tuple[ToolSpec, ...]]
"""Who offers tools: a key (its place among the envs of the task), how messages call the owner, and the tools."""


class ToolList(Sequence[ToolSpec]):
    """The tools of an episode, `end_turn` last. One object serves every episode with the same tools.

    Attributes:
        owners: key of the part that offers a tool, by the tool's name; ``""`` for `end_turn`.
        derived: forms of the list made from it once, such as its JSON; anybody may keep one here under a key.
    """

    __slots__ = ("__weakref__", "derived", "owners", "parts", "specs")

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.owners: Mapping[str, str] = _owners(parts)
        self.specs: tuple[ToolSpec, ...] = (*(spec for part in parts for spec in part[2]), END_TURN_TOOL)
        self.derived: dict[str, Any] = {}

    @overload
    def __getitem__(self, index: int) -> ToolSpec: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ToolSpec, ...]: ...
    def __getitem__(self, index: int | slice) -> ToolSpec | tuple[ToolSpec, ...]:
        return self.specs[index]

    def __len__(self) -> int:
        return len(self.specs)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self.specs)


def _owners(parts: tuple[Part, ...]) -> dict[str, str]:
    """Who offers which tool.

    Raises:
        EnvError: a name is reserved or offered twice.
    """
    owners: dict[str, str] = {}
    titles: dict[str, str] = {}
    problems: list[str] = []
    for key, title, specs in parts:
        for spec in specs:
            if spec.name in RESERVED:
                problems.append(f"{title} offers a tool named {spec.name!r}, a name kept for the episode itself")
            elif spec.name in owners:
                problems.append(f"{titles[spec.name]} and {title} both offer a tool named {spec.name!r}")
            else:
                owners[spec.name] = key
                titles[spec.name] = title
    if problems:
        raise EnvError("; ".join(problems) + ": rename the tool in one of them")
    owners[END_TURN] = ""
    return owners


class ToolLists:
    """The lists in use, by toolset; equal lists become one object.

    Every fresh env is asked for its tools, so that an env that lists something else than its sisters cannot hide
    behind a cached list; what is shared is the memory.
    """

    def __init__(self, limit: int = 1024) -> None:
        self._lists: OrderedDict[str, list[ToolList]] = OrderedDict()
        self._limit = limit

    def get(self, toolset: str, parts: tuple[Part, ...]) -> ToolList:
        """The one list of ``parts``.

        Raises:
            EnvError: a name is reserved or offered twice.
        """
        known = self._lists.setdefault(toolset, [])
        self._lists.move_to_end(toolset)
        for tools in known:
            if tools.parts == parts:
                return tools
        tools = ToolList(parts)
        known.append(tools)
        del known[:-4]
        while len(self._lists) > self._limit:
            self._lists.popitem(last=False)
        return tools
