"""From the scores of an episode to its reward: what the user asked for, checked against every task before serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from agent_env.episode.reward_kinds import CallableReward, CombinerReward, DefaultReward, StepReward, named
from agent_env.errors import AgentEnvError, Problem, RewardError
from agent_env.plugin.reward import RewardCombiner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.bundle import Bundle, Task, TaskTemplate
    from agent_env.plugin.reward import EpisodeFacts
    from agent_env.registry import Registry

STEP = "step:"
COMBINER = "combiner:"


class Reward(Protocol):
    """How the engine makes rewards."""

    def misfit(self, template: TaskTemplate) -> Sequence[str]:
        """Why it cannot make a reward for the tasks of a template; nothing when it can."""
        ...

    async def of(self, task: Task, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
        """The reward of an episode.

        Raises:
            RewardError: the scores make none.
        """
        ...


def choose_reward(
    bundle: Bundle, spec: str | Callable[..., Any] | RewardCombiner | None, registry: Registry
) -> tuple[Reward, list[Problem]]:
    """What ``spec`` means for ``bundle``, and the tasks that it does not fit.

    Raises:
        RewardError: ``spec`` is wrong, or fits no task at all.
        PluginError: the combiner that it names does not load.
    """
    reward = _build(bundle, spec, registry)
    misfits = [
        Problem(path=template.path, message=message, task=name)
        for name, template in bundle.templates.items()
        for message in reward.misfit(template)
    ]
    lacking = {problem.task for problem in misfits}
    if bundle.templates and lacking >= set(bundle.templates):
        raise RewardError(f"no task of bundle {bundle.name!r} gets a reward{_of(spec)}", map(str, misfits))
    return reward, misfits


def _of(spec: object) -> str:
    return f" from {spec!r}" if isinstance(spec, str) else ""


def _build(bundle: Bundle, spec: str | Callable[..., Any] | RewardCombiner | None, registry: Registry) -> Reward:
    if spec is None:
        return DefaultReward(bundle)
    if isinstance(spec, str):
        return _named(bundle, spec.strip(), registry)
    if isinstance(spec, RewardCombiner):
        return CombinerReward(spec)
    if callable(spec):
        return CallableReward(spec)
    raise RewardError(f"reward must be a step id, a combiner or a callable, got {type(spec).__name__}")


def _named(bundle: Bundle, spec: str, registry: Registry) -> Reward:
    steps = {step for template in bundle.templates.values() for step in template.scoring_steps}
    if spec.startswith(STEP):
        return _step(spec.removeprefix(STEP), steps)
    if spec.startswith(COMBINER):
        return _combiner(spec.removeprefix(COMBINER), registry)
    name = spec.partition(":")[0]
    is_combiner = name in registry.names("reward")
    if spec in steps and is_combiner:
        raise RewardError(
            f"reward {spec!r} is a scoring step and a reward combiner: write '{STEP}{spec}' or '{COMBINER}{spec}'"
        )
    if spec in steps:
        return StepReward(spec)
    if is_combiner:
        return _combiner(spec, registry)
    raise RewardError(_neither(spec, name, steps, registry))


def _neither(spec: str, name: str, steps: set[str], registry: Registry) -> str:
    known = ", ".join(sorted(steps)) or "none"
    message = f"reward {spec!r} is no scoring step of the bundle (scoring steps: {known}) and no reward combiner"
    try:
        registry.info("reward", name)
    except AgentEnvError as error:
        return f"{message}: {error}"
    return message


def _step(name: str, steps: set[str]) -> Reward:
    if name not in steps:
        known = ", ".join(sorted(steps)) or "none"
        raise RewardError(f"reward '{STEP}{name}': no task has a scoring step {name!r}; scoring steps: {known}")
    return StepReward(name)


def _combiner(spec: str, registry: Registry) -> Reward:
    name, _, arguments = spec.partition(":")
    build = cast("Callable[[str], object]", registry.load("reward", name))
    try:
        combiner = build(arguments)
    except RewardError as error:
        raise RewardError(named(name, str(error))) from error
    except Exception as error:
        raise RewardError(f"reward combiner {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(combiner, RewardCombiner):
        raise RewardError(f"reward combiner {name!r} made a {type(combiner).__name__}, not a RewardCombiner")
    return CombinerReward(combiner, name)
