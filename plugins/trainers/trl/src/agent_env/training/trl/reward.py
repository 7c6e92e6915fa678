"""The reward function: it ends every episode of the batch, side by side, and gives TRL the server's rewards."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, get_args

from agent_env.errors import EpisodeFailed, Failure, UsageError
from agent_env.rollout.background import background
from agent_env.rollout.result import Result
from agent_env.training.trl.ending import ending_of
from agent_env.training.trl.environment import BundleEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from agent_env.training.trl.episode import Ending, Episode

OnFailure = Literal["mask", "drop", "raise"]
_log = logging.getLogger(__name__)
_Task = tuple[str, int, int | None]


class BundleReward:
    """Scores the rollouts of a batch; TRL calls it once for each batch.

    Args:
        on_infra_failure: what becomes of a rollout whose episode failed, see `BundleSpec`.
    """

    def __init__(self, on_infra_failure: OnFailure = "mask") -> None:
        if on_infra_failure not in get_args(OnFailure):
            raise UsageError(f"on_infra_failure is mask, drop or raise, not {on_infra_failure!r}")
        self.__name__ = "agentenv_reward"
        self.on_infra_failure: OnFailure = on_infra_failure
        self.ends: Collection[int] = frozenset()
        """Tokens that end a reply, once the trainer's callback knows them."""

    def __call__(
        self,
        completions: Sequence[Any] = (),
        completion_ids: Sequence[Sequence[int]] | None = None,
        environments: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The rewards; `None` for a failed episode, which TRL leaves out of its group.

        Raises:
            EpisodeFailed: an episode failed and ``on_infra_failure`` is ``raise``.
            UsageError: TRL was not given the spec's environments.
        """
        del columns
        if environments is None:
            raise UsageError("no environments: give the trainer environment_factory=spec.environment_factory too")
        results = background().run(self._conclude(environments, completions, completion_ids))
        own = [result for result in results if result is not None]
        _log_failures(own)
        if self.on_infra_failure == "raise":
            for result in own:
                if result.failure is not None:
                    raise EpisodeFailed(result.failure)
        if log_metric is not None and own:
            _log_metrics(own, log_metric)
        if log_extra is not None:
            log_extra("agentenv_failure", ["" if one is None else str(one.failure or "") for one in results])
        rewards = [None if one is None or one.failure is not None else one.reward for one in results]
        return rewards if self.on_infra_failure == "mask" else self._without_failed_groups(environments, rewards)

    async def _conclude(
        self,
        environments: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None,
    ) -> list[Result | None]:
        async def one(place: int, environment: Any) -> Result | None:
            if not isinstance(environment, BundleEnvironment):
                return None  # another environment of the same run: another reward function scores it
            ids = completion_ids[place] if completion_ids is not None else None

            def ending(episode: Episode) -> Ending:
                aliases = environment._aliases  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                return ending_of(completions[place], ids, played=episode.calls, aliases=aliases, ends=self.ends)

            result = await environment._conclude(ending)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if result is None:
                result = Result()
                result.fail(Failure("aborted", "the environment was not reset"))
            return result

        return list(await asyncio.gather(*(one(place, item) for place, item in enumerate(environments))))

    @staticmethod
    def _without_failed_groups(environments: Sequence[Any], rewards: list[float | None]) -> list[float | None]:
        tasks = [_task(environment) for environment in environments]
        failed = {task for task, reward in zip(tasks, rewards, strict=True) if task is not None and reward is None}
        failed = _everywhere(failed)
        return [None if task in failed else reward for task, reward in zip(tasks, rewards, strict=True)]


def _task(environment: Any) -> _Task | None:
    if not isinstance(environment, BundleEnvironment):
        return None
    return environment._task()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _everywhere(failed: set[_Task]) -> set[_Task]:
    """The failed tasks of all processes: a group may be spread over several."""
    torch = sys.modules.get("torch")
    distributed: Any = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return failed
    gathered: list[set[_Task]] = [set() for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(gathered, failed)
    return {task for tasks in gathered for task in tasks}


def _log_failures(results: Sequence[Result]) -> None:
    failures = [result.failure for result in results if result.failure is not None]
    if not failures:
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(failure.kind for failure in failures).items())
    _log.warning("%d of %d episodes failed (%s), for example: %s", len(failures), len(results), kinds, failures[0])


def _log_metrics(results: Sequence[Result], log_metric: Callable[[str, float], None]) -> None:
    log_metric("agentenv/failed", sum(result.failure is not None for result in results) / len(results))
    log_metric("agentenv/truncated", sum(result.truncated for result in results) / len(results))
    log_metric("agentenv/tool_calls", sum(result.tool_calls for result in results) / len(results))
    scores: dict[str, list[float]] = {}
    for result in results:
        for step, score in result.scores.items():
            scores.setdefault(step, []).append(score)
    for step, values in scores.items():
        log_metric(f"agentenv/scores/{step}", sum(values) / len(values))
