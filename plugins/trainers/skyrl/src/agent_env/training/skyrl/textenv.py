"""The environment that SkyRL steps, without SkyRL's base class: text in, text out, our parsers between."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.background import background
from agent_env.rollout.parsers import load_parser
from agent_env.training.skyrl.episode import Episode
from agent_env.training.skyrl.row import read_row
from agent_env.training.skyrl.rows import PARSER
from agent_env.training.skyrl.tooltext import answer_messages, with_tools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.rollout.result import Result

made: ContextVar[list[TextEnv] | None] = ContextVar("agentenv_skyrl_made", default=None)
"""Where environments enter themselves, so that whoever plays them can close them whatever happens."""


class TextEnv:
    """One episode of a row; made, `init`, stepped, closed.

    The methods without an ``a`` before their name wait in the calling thread, those with one are awaited.

    Args:
        env_config: SkyRL's, unused.
        extras: the row's columns, and ``max_turns`` from the trainer's configuration.
        native_tools: the chat template is given the tools (``generator.chat_template_kwargs.tools``): the prompt
            stays as it is and answers are ``tool`` messages. Else the system message tells of the tools, and answers
            are ``user`` messages.

    Raises:
        UsageError: the row is none of ours.
    """

    def __init__(
        self, env_config: object = None, extras: Mapping[str, Any] | None = None, *, native_tools: bool = False
    ) -> None:
        del env_config
        super().__init__()
        self.row = read_row(extras or {})
        self.max_turns = self.row.max_turns
        self.finish_reason = "stop"
        """How the reply that is stepped next ended; set by a generator that knows."""
        self.whole: str | None = None
        """That reply with its special tokens, where the generator knows it."""
        self._native = native_tools
        self._episode: Episode | None = None
        self._closed = False
        listed = made.get()
        if listed is not None:
            listed.append(self)

    @property
    def parser(self) -> ToolCallParser:
        """Reads the calls out of a reply.

        Raises:
            PluginError: it is not installed.
        """
        return load_parser(self.row.parser or PARSER)

    @property
    def result(self) -> Result | None:
        """The rollout so far, `None` before `init`."""
        return None if self._episode is None else self._episode.result

    @property
    def over(self) -> bool:
        """Whether the episode is scored or failed."""
        return self._episode is not None and self._episode.over

    def init(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Get the episode; returns the first messages.

        Raises:
            EpisodeFailed: there is none.
        """
        return background().run(self.ainit(prompt))

    def step(self, action: str) -> dict[str, Any]:
        """Play one reply of the model.

        Raises:
            EpisodeFailed: the episode has no reward; that is never a reward of 0.
        """
        return background().run(self.astep(action))

    def close(self) -> None:
        """Give the episode back to the server. Idempotent."""
        background().run(self.aclose())

    async def ainit(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """See `init`."""
        if self._closed or self._episode is not None:
            raise EpisodeFailed(Failure("aborted", "an environment plays one episode; make another for the next"))
        parser = self.parser
        first = with_tools(prompt, () if self._native else self.row.tools, parser)
        self._episode = Episode(self.row, first, parser)
        await self._episode.start()
        return first, {}

    async def astep(self, action: str) -> dict[str, Any]:
        """See `step`."""
        episode = self._episode
        if episode is None:
            raise EpisodeFailed(Failure("aborted", "the environment was stepped before its init"))
        answers = await episode.step(self._with_marks(action), self.finish_reason)
        reward = episode.result.reward if episode.over else None
        return {
            "observations": answer_messages(answers, native=self._native),
            "reward": 0.0 if reward is None else reward,
            "done": episode.over,
            "metadata": {},
        }

    def _with_marks(self, action: str) -> str:
        """The whole reply when calls in it are lost without its special tokens, else the text as it came."""
        whole, self.whole = self.whole, None
        if whole is None or whole == action:
            return action
        parser, tools = self.parser, list(self.row.tools)
        return whole if len(parser.parse(whole, tools).calls) > len(parser.parse(action, tools).calls) else action

    async def aleave(self) -> float:
        """Score an open episode as it stands, for a model without room to go on; returns the reward.

        Raises:
            EpisodeFailed: the episode has no reward.
        """
        if self._episode is not None:
            await self._episode.leave()
        result = self.result
        if result is None or result.reward is None:
            raise EpisodeFailed(Failure("aborted", "the episode did not begin"))
        return result.reward

    async def aclose(self) -> None:
        """See `close`."""
        self._closed = True
        if self._episode is not None:
            await self._episode.close()

    def get_metrics(self) -> dict[str, Any]:
        """Numbers of the episode, those of a scored one alone."""
        result = self.result
        if result is None or result.failure is not None:
            return {"failed": 1.0}
        return {
            "failed": 0.0,
            "turns": result.turns,
            "tool_calls": result.tool_calls,
            "invalid_calls": result.invalid_calls,
            "unknown_calls": result.unknown_calls,
            "truncated": float(result.truncated),
            "reset_s": result.seconds["reset"],
            "tools_s": result.seconds["tools"],
            **{f"score/{name}": score for name, score in result.scores.items()},
        }

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, Any]]) -> dict[str, float]:
        """The mean of each number over the episodes that have it."""
        found: dict[str, list[float]] = {}
        for fields in metrics:
            for key, value in fields.items():
                if isinstance(value, (int, float)):
                    found.setdefault(key, []).append(float(value))
        return {key: sum(values) / len(values) for key, values in found.items()}
