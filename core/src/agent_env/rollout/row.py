"""A trainer's row as an adapter plays it: the task, where it is served, and the bounds of its episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.rollout.loop import Settings
from agent_env.rollout.opening import Target
from agent_env.rollout.parsers import load_parser

if TYPE_CHECKING:
    from agent_env.plugin.parser import ToolCallParser
    from agent_env.rollout.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """A row's task and settings; times in seconds.

    Attributes:
        url: address of the bundle's server.
        split: split of the task.
        index: its place in the split.
        seed: for a task with a ``<seed>`` placeholder, when the row's author gave one.
        task_id: for messages.
        prompt: the first messages, where the trainer gives them with the row.
        tools: OpenAI function schemas.
        token: the value of the variable that the row names; kept out of the representation.
        parser: name of our parser of the model's calls, `None` = none of ours.
        max_turns: replies of the model.
        tool_timeout: one tool call.
        reset_timeout: getting an episode; also each end of a turn.
        model_timeout: one reply of the model.
        max_seq_len: tokens of the conversation at which it ends, `None` without a bound.
    """

    url: str
    split: str
    index: int
    seed: int | None
    task_id: str
    tools: tuple[dict[str, Any], ...]
    token: str | None
    parser: str | None
    max_turns: int
    tool_timeout: float
    reset_timeout: float
    model_timeout: float
    prompt: tuple[dict[str, Any], ...] = ()
    max_seq_len: int | None = None

    def __repr__(self) -> str:
        return f"Row({self.task_id!r}, {self.split!r}, {self.index}, {self.url!r})"

    @property
    def target(self) -> Target:
        """The episode."""
        return Target(self.url, self.split, self.index, seed=self.seed, token=self.token)

    def load_parser(self) -> ToolCallParser | None:
        """The row's parser, `None` when it names none.

        Raises:
            PluginError: it is not installed.
        """
        return None if self.parser is None else load_parser(self.parser)

    def settings(self, *, most_turns: int | None = None) -> Settings:
        """The bounds, with ``most_turns`` replies where that is fewer."""
        return Settings(
            max_turns=min(self.max_turns, most_turns or self.max_turns),
            tool_timeout=self.tool_timeout,
            reset_timeout=self.reset_timeout,
            model_timeout=self.model_timeout,
            max_seq_len=self.max_seq_len,
        )


def read_episode_row(
    task: Fields,
    own: Fields,
    *,
    tools: tuple[dict[str, Any], ...],
    token: str | None,
    prompt: tuple[dict[str, Any], ...] = (),
    max_turns: int | None = None,
) -> EpisodeRow:
    """Put a row together.

    Args:
        task: the fields that say which task it is.
        own: the fields with the server's address and the bounds.
        tools: see `EpisodeRow`.
        token: see `EpisodeRow`.
        prompt: see `EpisodeRow`.
        max_turns: the trainer's own bound, which goes before the row's.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    return EpisodeRow(
        url=own.text("url"),
        split=task.text("split"),
        index=task.count("index"),
        seed=task.optional_count("seed"),
        task_id=str(task.values.get("task_id") or ""),
        prompt=prompt,
        tools=tools,
        token=token,
        parser=own.optional_text("parser"),
        max_turns=own.count("max_turns", least=1, default=4) if max_turns is None else max_turns,
        tool_timeout=own.seconds("tool_timeout", 60.0),
        reset_timeout=own.seconds("reset_timeout", 600.0),
        model_timeout=own.seconds("model_timeout", 600.0),
        max_seq_len=task.optional_count("max_seq_len", least=1),
    )
