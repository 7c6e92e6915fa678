"""One episode as it is kept: scores or the failure, counts, tokens and the transcript."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import Failure
from agent_env.rollout.result import json_safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.evaluation.usage import Usage
    from agent_env.rollout import Result


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """A line of ``episodes.jsonl``.

    Attributes:
        task: name of the task within its bundle.
        index: the task's place in the split.
        repeat: number of the episode among those of its task, from 0.
        reward: `None` when it failed.
        scores: by scoring step.
        failure: why there is no reward.
        attempts: episodes that were played for this one; all but the last failed for a passing reason.
        earlier: failures of the attempts before the last.
        turns: replies of the model.
        tool_calls: executed env calls.
        invalid_calls: calls whose arguments were no JSON object.
        unknown_calls: calls of tools that do not exist.
        unparsed_calls: replies with call markup that nobody parsed.
        truncated: the model's end was forced.
        end_reason: ``end_turn``, ``no_call``, ``max_turns``, ``length``, ``context``, ``budget`` or ``failed``.
        model_retries: attempts to get a reply beyond the first.
        tokens: ``prompt``, ``completion``, ``cached``, ``replies``, ``uncounted``, over all attempts.
        seconds: wall time by part: ``reset``, ``model``, ``tools``, ``end``, ``total``.
        ended: when, seconds since the epoch.
        warnings: what was odd.
        messages: the transcript, OpenAI messages.
    """

    task: str
    index: int
    repeat: int
    reward: float | None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    attempts: int = 1
    earlier: Sequence[str] = ()
    turns: int = 0
    tool_calls: int = 0
    invalid_calls: int = 0
    unknown_calls: int = 0
    unparsed_calls: int = 0
    truncated: bool = False
    end_reason: str = "failed"
    model_retries: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    ended: float = 0.0
    warnings: Sequence[str] = ()
    messages: Sequence[Mapping[str, Any]] = ()

    @property
    def key(self) -> tuple[str, int]:
        """What tells episodes of a run apart."""
        return self.task, self.repeat

    @property
    def spent(self) -> int:
        """Prompt and completion tokens."""
        return self.tokens.get("prompt", 0) + self.tokens.get("completion", 0)

    @property
    def odd_calls(self) -> int:
        """Calls that were invalid, unknown or unparsed."""
        return self.invalid_calls + self.unknown_calls + self.unparsed_calls

    def as_json(self) -> dict[str, Any]:
        """A JSON object: finite numbers, valid Unicode."""
        return cast("dict[str, Any]", json_safe(asdict(self)))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EpisodeRecord:
        """Read what `as_json` gave; keys of later versions are left out.

        Raises:
            ValueError: it is no record.
        """
        known = {key: item for key, item in value.items() if key in cls.__dataclass_fields__}
        failure = known.get("failure")
        try:
            known["failure"] = None if failure is None else Failure(**failure)
            record = cls(**known)
        except TypeError as error:
            raise ValueError(f"no record of an episode: {error}") from error
        if not isinstance(record.task, str) or not isinstance(record.repeat, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("no record of an episode: task or repeat is none")  # noqa: TRY004
        if record.reward is not None and not _finite(record.reward):
            raise ValueError(f"no record of an episode: its reward is {record.reward!r}")
        if (record.reward is None) == (record.failure is None):
            raise ValueError("no record of an episode: it must have a reward or a failure")
        return record


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def record_of(
    result: Result, task: Mapping[str, Any], repeat: int, *, usage: Usage, earlier: Sequence[Failure], ended: float
) -> EpisodeRecord:
    """The record of a rollout; ``usage`` is that of all attempts, ``earlier`` the failures before the last."""
    failure = result.failure
    if failure is None and result.reward is None:
        failure = Failure("no_reward", "the episode ended without a reward")
    return EpisodeRecord(
        task=str(task["name"]),
        index=int(task["index"]),
        repeat=repeat,
        reward=None if failure is not None else result.reward,
        scores=dict(result.scores),
        failure=failure,
        attempts=len(earlier) + 1,
        earlier=tuple(str(one) for one in earlier),
        turns=result.turns,
        tool_calls=result.tool_calls,
        invalid_calls=result.invalid_calls,
        unknown_calls=result.unknown_calls,
        unparsed_calls=result.unparsed_calls,
        truncated=result.truncated,
        end_reason=result.end_reason,
        model_retries=result.model_retries,
        tokens=asdict(usage),
        seconds=dict(result.seconds),
        ended=ended,
        warnings=tuple(result.warnings),
        messages=tuple(result.messages),
    )
