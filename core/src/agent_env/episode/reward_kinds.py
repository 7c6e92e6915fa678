"""What can make a reward: one step's score, the task's final step, a combiner, a function."""

from __future__ import annotations

import inspect
import math
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from agent_env.episode.reward_trial import TRIAL_SCORE, NotANumber, Trial
from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agent_env.bundle import Bundle, Task, TaskTemplate
    from agent_env.plugin.reward import RewardCombiner


ASK = "--reward, in Python reward="


class StepReward:
    """The score of one step."""

    def __init__(self, step: str) -> None:
        self._step = step

    def misfit(self, template: TaskTemplate) -> Sequence[str]:
        """The task lacks the step."""
        if self._step in template.scoring_steps:
            return ()
        return (f"the task has no scoring step {self._step!r}, which is the reward ({_scores(template)})",)

    async def of(self, task: Task, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        """Its score."""
        del task, facts
        return check_reward(_score(scores, self._step), f"step {self._step!r}")


class DefaultReward:
    """The task's only scoring step, or its one final ``aggregate_verifiers``."""

    def __init__(self, bundle: Bundle) -> None:
        self._steps = {name: final_step(template) for name, template in bundle.templates.items()}

    def misfit(self, template: TaskTemplate) -> Sequence[str]:
        """The task does not say which step is the reward."""
        if final_step(template) is not None:
            return ()
        if not template.scoring_steps:
            return (f"the task has no scoring step, so no reward: add a verifier or give a reward ({ASK})",)
        many = f"several steps score the task ({_scores(template)})"
        return (f"{many}: add one final aggregate_verifiers or give a reward ({ASK})",)

    async def of(self, task: Task, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        """The score of the task's step."""
        del facts
        step = self._steps.get(task.template)
        if step is None:
            raise RewardError(f"task {task.id!r} does not say which step is the reward")
        return check_reward(_score(scores, step), f"step {step!r}")


def final_step(template: TaskTemplate) -> str | None:
    """The step whose score is the task's reward when nothing else is asked for."""
    scoring = template.scoring_steps
    if len(scoring) == 1:
        return scoring[0]
    aggregates = [step for step in template.steps if step.type == "aggregate_verifiers"]
    used = {name for step in aggregates for name in cast("Sequence[str]", getattr(step, "verifier_ids", None) or ())}
    final = [
        step
        for step in aggregates
        if step.id not in used and (getattr(step, "verifier_id", None) or step.id) not in used
    ]
    return final[0].id if len(final) == 1 else None


class CombinerReward:
    """A plugin's combiner.

    Args:
        combiner: it.
        name: its name, for messages; `None` = that of its class.
    """

    def __init__(self, combiner: RewardCombiner, name: str | None = None) -> None:
        self._combiner = combiner
        self._name = name or type(combiner).__name__

    def misfit(self, template: TaskTemplate) -> Sequence[str]:
        """What the combiner says."""
        try:
            problems = tuple(self._combiner.check(template.scoring_steps))
        except RewardError as error:
            problems = (str(error),)
        except Exception as error:
            raise RewardError(f"reward combiner {self._name}: {type(error).__name__}: {error}") from error
        return tuple(named(self._name, problem) for problem in problems)

    async def of(self, task: Task, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        """What the combiner makes of the scores."""
        del task
        what = f"reward combiner {self._name}"
        try:
            value: object = self._combiner.combine(scores, facts)
        except RewardError:
            raise
        except Exception as error:
            raise RewardError(f"{what}: {type(error).__name__}: {error}") from error
        return check_reward(value, what)


def named(combiner: str, message: str) -> str:
    """What a combiner says, with its name before it."""
    return message if message.startswith((combiner, f"'{combiner}'")) else f"{combiner}: {message}"


class CallableReward:
    """A function of the user's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._positional, self._keyword = _takes_facts(function, self._name)
        self._trial = Trial(self._name)

    def misfit(self, template: TaskTemplate) -> Sequence[str]:
        """What a trial call says, with every score at 0.5."""
        steps = template.scoring_steps
        facts = EpisodeFacts(task_id=template.id, turns=1, tool_calls=1, seconds=1.0)
        problem = self._trial.problem(lambda: self._call(dict.fromkeys(steps, TRIAL_SCORE), facts), steps)
        return () if problem is None else (problem,)

    async def of(self, task: Task, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        """What the function makes of the scores."""
        del task
        return await self._call(scores, facts)

    async def _call(self, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        what = f"reward function {self._name}"
        try:
            if self._positional:
                value: object = self._function(dict(scores), facts)
            elif self._keyword:
                value = self._function(dict(scores), episode=facts)
            else:
                value = self._function(dict(scores))
            if inspect.isawaitable(value):
                value = await cast("Awaitable[object]", value)
        except RewardError:
            raise
        except Exception as error:
            raise RewardError(f"{what}: {type(error).__name__}: {error}") from error
        return check_reward(value, what)


def _takes_facts(function: Callable[..., Any], name: str) -> tuple[bool, bool]:
    """Whether the function takes the episode's facts, as second argument or as keyword ``episode``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False, False
    places = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = [p for p in places if p.default is p.empty]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    other = [p.name for p in keywords if p.default is p.empty and p.name != "episode"]
    if len(needed) > 2 or other or not (places or any_number):
        raise RewardError(f"reward function {name} must take (scores) or (scores, episode)")
    second = len(places) > 1 and (len(needed) > 1 or places[1].name == "episode")
    return second, any(p.name == "episode" for p in keywords)


def check_reward(value: object, what: str) -> float:
    """``value`` as a reward.

    Raises:
        RewardError: it is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise NotANumber(f"{what} gave {value!r}, not a finite number")
    if not math.isfinite(float(value)):
        raise RewardError(f"{what} gave {value!r}, not a finite number")
    return float(value)


def _score(scores: Mapping[str, float], step: str) -> float:
    if step not in scores:
        raise RewardError(f"step {step!r} recorded no score")
    return scores[step]


def _scores(template: TaskTemplate) -> str:
    return f"it scores {', '.join(template.scoring_steps)}" if template.scoring_steps else "it has no scoring step"
