"""The contract of a trainer adapter.

An adapter writes the trainer's rows, plays a rehearsal through the very functions that the trainer loads, and imports
neither its trainer nor the server's packages when it is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.errors import Failure


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What every row carries besides its task; all times in seconds."""

    max_turns: int = 4
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    model_timeout: float = 600.0
    token_var: str | None = None
    parser: str | None = None


@dataclass(frozen=True, slots=True)
class RehearsalSample:
    """One episode of a rehearsal as the trainer would see it.

    Attributes:
        task_id: the task that was played.
        reward: the trainer's reward for the sample, `None` when the episode failed.
        scores: by id of the scoring step.
        tool_calls: executed env calls.
        invalid_calls: calls whose arguments were not a JSON object.
        failure: why there is no reward.
        turns: model replies.
        trained_tokens: tokens that the trainer would train on, counted by the stand-in model.
        seconds: wall time of the sample.
        timings: seconds by part: ``deploy_s``, ``tools_s``, ``verifier_s``.
        warnings: what the adapter noticed and a user should know, such as calls that came back unparsed.
        transcript: the messages of the conversation.
    """

    task_id: str
    reward: float | None
    scores: Mapping[str, float]
    tool_calls: int
    invalid_calls: int
    failure: Failure | None
    turns: int
    trained_tokens: int
    seconds: float
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    warnings: tuple[str, ...] = ()
    transcript: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class RehearsalGroup:
    """The samples of one task, and whether the trainer would keep the group."""

    task_id: str
    kept: bool
    samples: tuple[RehearsalSample, ...]


@dataclass(frozen=True, slots=True)
class RehearsalPlan:
    """What to rehearse.

    Attributes:
        url: address of the bundle's server.
        split: split whose first tasks are played.
        groups: tasks to play.
        samples: episodes for each task.
        reply: the stand-in model, ``reply(messages, tools) -> assistant message``, sync; it runs off the event loop.
        session: the adapter's session kind (``v1``, ``v2`` for Miles), `None` = its default.
        rows: settings for the rows.
        concurrency: episodes at once at most; `None` = all.
    """

    url: str
    split: str
    groups: int
    samples: int
    reply: Callable[[list[dict[str, Any]], list[dict[str, Any]]], dict[str, Any]]
    session: str | None = None
    rows: RowSettings = field(default_factory=RowSettings)
    concurrency: int | None = None


class TrainerAdapter(ABC):
    """One trainer."""

    name: str

    @abstractmethod
    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        """Write one file of rows per split of the bundle served at ``url`` into the folder ``out``.

        Files appear whole or not at all. ``progress(split, done, total)`` is called now and then.

        Returns:
            The files written, in the order of their names.

        Raises:
            AgentEnvError: the server cannot be reached, refuses the token or is no AgentEnv server; the disk is full.
        """

    @abstractmethod
    def rehearse(self, plan: RehearsalPlan) -> AsyncIterator[RehearsalSample | RehearsalGroup]:
        """Play groups as the trainer would; yields every sample as it ends and every group after its samples."""
