"""The task: a bundle's task as verifiers knows it, and what happens before and after it is played."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import logging
from typing import Any

from agent_env.errors import AgentEnvError, EpisodeFailed
from agent_env.training.verifiers import live
from agent_env.training.verifiers.failures import error_of
from agent_env.training.verifiers.play import episode_of
from agent_env.training.verifiers.toolset import BundleToolset, offer_tools

import verifiers.v1 as vf  # type: ignore[import-not-found]

_log = logging.getLogger(__name__)


class BundleData(vf.TaskData):
    """A row: the task in its bundle, where it is served, and the bounds of its episode (seconds)."""

    url: str
    split: str
    index: int
    seed: int | None = None
    token_var: str | None = None
    """Name of the environment variable with the server's token; the token itself is in no row and no trace."""
    max_turns: int = 4
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    model_timeout: float = 600.0
    parser: str | None = None


class BundleState(vf.State):
    """What came of the episode; it is recorded with the trace."""

    reward: float | None = None
    scores: dict[str, float] = {}  # noqa: RUF012 - pydantic copies it
    metrics: dict[str, float] = {}  # noqa: RUF012
    timings: dict[str, float] = {}  # noqa: RUF012
    warnings: list[str] = []  # noqa: RUF012
    end_reason: str = ""


class BundleTask(vf.Task[BundleData, BundleState]):
    """One task of a bundle."""

    @property
    def key(self) -> str:
        """The task's id in its bundle, with the seed where there is one."""
        data: Any = self.data
        return str(data.id) if data.seed is None else f"{data.id}#{data.seed}"

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:  # noqa: ARG002
        """Get the episode: a fresh env, opened as far as its first prompt."""
        row: Any = self.data
        try:
            episode = episode_of(row.model_dump())
            live.add(trace.id, episode)
            await episode.open()
        except EpisodeFailed as error:
            await live.close(trace.id)
            raise error_of(error.failure) from error
        except AgentEnvError as error:
            raise vf.TaskError(str(error)) from error
        except BaseException:
            await live.close(trace.id)
            raise
        await offer_tools(trace, episode)

    @classmethod
    def toolsets(cls, config: Any) -> list[Any]:  # noqa: ARG003
        """The tools of the episode that this rollout got; none before there is one."""
        return BundleToolset.offered()

    @vf.stop
    async def episode_over(self, trace: vf.Trace) -> bool:
        """No further reply is asked for once the episode is scored or failed."""
        episode = live.get(trace.id)
        return episode is not None and episode.over

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:  # noqa: ARG002
        """End the episode, which runs its verifiers; a failure is an error of the rollout, never a reward."""
        episode = live.get(trace.id)
        if episode is None:
            raise vf.TaskError("the episode was closed before it was scored")
        try:
            result = await episode.finish(trace.last_reply, truncated=trace.is_truncated)
        finally:
            await live.close(trace.id)
        if result.failure is not None:
            raise error_of(result.failure)
        state = trace.state
        state.reward = result.reward
        state.scores = dict(result.scores)
        state.timings = dict(result.timings)
        state.warnings = list(result.warnings)
        state.end_reason = result.end_reason
        state.metrics = {
            "tool_calls": result.tool_calls,
            "invalid_calls": result.invalid_calls,
            "unknown_calls": result.unknown_calls,
            "unparsed_calls": result.unparsed_calls,
            "reset_retries": result.reset_retries,
            "truncated": float(result.truncated),
        }
        for warning in result.warnings:
            _log.warning("%s: %s", self.key, warning)

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """The episode's reward, as the bundle's verifiers and combiner made it."""
        if trace.state.reward is None:
            raise RuntimeError("the episode has no reward: its finalize hook did not end")
        return float(trace.state.reward)

    @vf.metric
    async def agentenv(self, trace: vf.Trace) -> dict[str, float]:
        """``score/<step>`` for each scoring step, and counts of the episode."""
        scores = {f"score/{step}": value for step, value in trace.state.scores.items()}
        return {**scores, **trace.state.metrics}
