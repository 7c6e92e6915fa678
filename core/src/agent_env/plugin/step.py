"""The contract of a task step type: a pydantic model of its fields and ``async def run(step, episode)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictBool, StrictStr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Sandbox
    from agent_env.plugin.tools import ToolResult, ToolSpec


def _depends_on(value: object) -> object:
    """``"a"`` and ``{"task_step_id": "a"}`` both name step a; a bare string instead of a list is refused."""
    if not isinstance(value, list):
        return value
    names: list[object] = []
    for item in cast("list[object]", value):
        if isinstance(item, dict):
            fields = cast("dict[str, object]", item)
            names.append(fields["task_step_id"] if set(fields) == {"task_step_id"} else fields)
        else:
            names.append(item)
    return tuple(names)


class StepModel(BaseModel):
    """The fields that every step has. A step type subclasses it with its own fields; unknown fields are refused.

    Class attributes:
        scores: running the step records a score (`EpisodeContext.record_score`) under its id.
        prompts: running the step opens a turn for the agent that is played.
        fields_without_meaning: fields that are read but mean nothing for a played agent; `agentenv bundle check`
            lists those that a task sets.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    scores: ClassVar[bool] = False
    prompts: ClassVar[bool] = False
    fields_without_meaning: ClassVar[frozenset[str]] = frozenset()

    id: StrictStr
    type: StrictStr
    version: StrictStr | int | None = None
    depends_on: Annotated[tuple[StrictStr, ...] | None, BeforeValidator(_depends_on)] = None
    fail_task_on_error: StrictBool = True


class EnvHandle(Protocol):
    """A deployed env: MCP tools, data operations and extensions. All raise `agent_env.errors.EnvError`."""

    name: str

    async def list_tools(self) -> Sequence[ToolSpec]: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Raises `EnvTimeout` past ``timeout`` seconds; a tool's own failure is a result with ``is_error``."""
        ...

    async def data_reset(self) -> None: ...

    async def data_add(self, parts: Sequence[Mapping[str, Any]]) -> None: ...

    async def data_get(self) -> Sequence[Mapping[str, Any]]: ...

    async def call_extension(
        self, uri: str, params: Mapping[str, Any], *, method: str | None = None, timeout: float = 30.0
    ) -> Any: ...


class Row(Protocol):
    """A verification row as the bundle format has it: ``{"id", "result": bool, "score"?, "weight"?}``."""

    def __getitem__(self, key: str, /) -> Any: ...


class EpisodeContext(Protocol):
    """What a step may do with the episode that runs it."""

    id: str
    task_id: str
    bundle: Path
    results: dict[str, Any]
    """Values kept for later steps (``run_code``), by result id."""

    async def prompt(self, prompt: str, *, system_prompt: str | None = None, prompt_id: str | None = None) -> str:
        """Open the agent's turn with this prompt and wait for its reply."""
        ...

    def env(self, name: str) -> EnvHandle:
        """The env that a step deployed, by env id or by id of the deploy step."""
        ...

    def sandbox(self, name: str) -> Sandbox:
        """The sandbox that a step deployed, by its name."""
        ...

    def record_score(self, step_id: str, score: float, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        """Record the score of a scoring step."""
        ...
