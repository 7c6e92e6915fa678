"""The generator: SkyRL's own, in which one rollout's failure costs its group and not the step."""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import ContextVar
from typing import Any

from agent_env.errors import AgentEnvError, EpisodeFailed, Failure, PluginError, UsageError
from agent_env.rollout.background import background
from agent_env.training.skyrl.engine import NotingClient
from agent_env.training.skyrl.failures import (
    ERROR,
    OnFailure,
    Rows,
    failed_rollouts,
    fill_experts,
    group_keys,
    mask_groups,
)
from agent_env.training.skyrl.imports import third_party
from agent_env.training.skyrl.textenv import TextEnv, made

_log = logging.getLogger(__name__)
_failures: ContextVar[list[Failure] | None] = ContextVar("agentenv_skyrl_failures", default=None)
_TOO_LONG = "the first prompt is longer than generator.max_input_length"


def contain(base: type[Any]) -> type[Any]:
    """A subclass of ``base``, SkyRL's ``SkyRLGymGenerator`` or one that keeps its ``agent_loop``."""

    class BundleGenerator(base):  # type: ignore[misc]
        """Plays bundles; see `agent_env.training.skyrl.generator_class`."""

        def __init__(self, *args: Any, on_infra_failure: OnFailure = "mask", **options: Any) -> None:
            check_choice(on_infra_failure)
            parent: Any = super()
            parent.__init__(*args, **options)
            if self.batched:
                raise UsageError("bundles are played in turns: set generator.batched=false")
            self._raises = on_infra_failure == "raise"
            self.inference_engine_client: Any = NotingClient(self.inference_engine_client, self.tokenizer)

        async def generate(self, input_batch: dict[str, Any], *args: Any, **options: Any) -> dict[str, Any]:
            """SkyRL's output, with the groups of failed rollouts masked.

            Raises:
                EpisodeFailed: a rollout failed and ``on_infra_failure`` is ``raise``; all others have ended by then.
                AgentEnvError: every rollout of several groups failed.
                UsageError: the rows or the configuration cannot be played.
            """
            if self.generator_cfg.max_input_length is None:
                raise UsageError("set generator.max_input_length, the tokens at which an episode ends")
            failures: list[Failure] = []
            token = _failures.set(failures)
            try:
                parent: Any = super()
                output: dict[str, Any] = await parent.generate(input_batch, *args, **options)
            finally:
                _failures.reset(token)
            if failures and self._raises:
                raise EpisodeFailed(failures[0])
            return mask_output(input_batch, output, failures)

        async def agent_loop(self, prompt: Any, env_class: str, env_extras: Any, *args: Any, **options: Any) -> Any:
            """One rollout; a failed one is a placeholder that is not trained."""
            started = time.monotonic()
            envs: list[TextEnv] = []
            token = made.set(envs)
            try:
                parent: Any = super()
                output: Any = await parent.agent_loop(prompt, env_class, env_extras, *args, **options)
                for env in envs:
                    await leave(env, output)
                return output
            except (UsageError, PluginError):
                raise
            except Exception as error:  # noqa: BLE001  the step would end with it, and all other rollouts
                failure = read_failure(error, envs)
                _log.warning("rollout of %s failed: %s", env_extras.get("task_id"), failure)
                listed = _failures.get()
                if listed is not None:
                    listed.append(failure)
                return self._placeholder(time.monotonic() - started)
            finally:
                made.reset(token)
                for env in envs:
                    await asyncio.shield(background().wait(env.aclose()))

        async def _run_in_executor_if_available(self, func: Any, *args: Any, **options: Any) -> Any:
            # Not in SkyRL's few threads: rollouts that wait for an episode would keep those that have one from a step.
            env = getattr(func, "__self__", None)
            if not isinstance(env, TextEnv):
                parent: Any = super()
                return await parent._run_in_executor_if_available(func, *args, **options)  # noqa: SLF001
            if func.__name__ == "init":
                return await background().wait(env.ainit(*args, **options))
            if func.__name__ == "step":
                return await background().wait(env.astep(args[0].removesuffix(self.tokenizer.eos_token or "")))
            return None  # closed by agent_loop, which first scores what is open

        def _placeholder(self, seconds: float) -> Any:
            module = third_party("skyrl.train.generators.skyrl_gym_generator")
            token = self.tokenizer.eos_token_id or 0
            output = module.TrajectoryOutput(
                response_ids=[token],
                reward=0.0 if self.custom_chat_template else [0.0],
                stop_reason=ERROR,
                loss_mask=[0],
                prompt_ids=[token],
                rollout_logprobs=[0.0],
                env_metrics={"failed": 1.0},
                e2e_time=seconds,
            )
            if self.generator_cfg.step_wise_trajectories:
                return module.StepWiseOutput(step_outputs=[output], e2e_time=seconds)
            return output

    return BundleGenerator


def check_choice(on_infra_failure: str) -> None:
    """Check the switch.

    Raises:
        UsageError: it is none of SkyRL's.
    """
    if on_infra_failure == "drop":
        raise UsageError(
            "SkyRL needs an output for every rollout of a batch, so on_infra_failure cannot be 'drop': use 'mask'; "
            "with trainer.algorithm.dynamic_sampling.type=filter a masked group is dropped and sampled again"
        )
    if on_infra_failure not in {"mask", "raise"}:
        raise UsageError(f"on_infra_failure must be 'mask' or 'raise', got {on_infra_failure!r}")


async def leave(env: TextEnv, output: Any) -> None:
    """Score an episode that SkyRL left because the context is full, and add its reward to ``output``.

    Raises:
        EpisodeFailed: the episode has no reward, or the model had no turn.
    """
    if env.over:
        return
    steps = getattr(output, "step_outputs", None)
    if steps is not None and not steps:
        raise EpisodeFailed(Failure("aborted", _TOO_LONG))
    last = output if steps is None else steps[-1]
    reward = await background().wait(env.aleave())
    rewards: list[float] | float = last.reward
    if isinstance(rewards, list):
        rewards[-1] += reward
    else:
        last.reward = rewards + reward
    last.env_metrics = env.get_metrics()


def read_failure(error: Exception, envs: list[TextEnv]) -> Failure:
    """What ended a rollout."""
    if isinstance(error, EpisodeFailed):
        return error.failure
    if isinstance(error, TypeError) and any(
        env.result is not None and not env.over and not env.result.turns for env in envs
    ):
        return Failure("aborted", _TOO_LONG)  # SkyRL looks for the end of a response that it never asked for
    _log.error("a rollout failed outside of its episode", exc_info=error)
    return Failure("aborted", f"{type(error).__name__}: {error}")


def mask_output(batch: dict[str, Any], output: dict[str, Any], failures: list[Failure]) -> dict[str, Any]:
    """Mask the groups of failed rollouts, and take these out of the metrics.

    Raises:
        AgentEnvError: every rollout of several groups failed.
    """
    rows = Rows.of(output)
    failed = failed_rollouts(output, rows)
    groups = group_keys(batch)
    if len(failed) == len(groups) and len(set(groups)) > 1:
        first = failures[0] if failures else "an engine's error"
        raise AgentEnvError(f"all {len(groups)} rollouts of the batch failed, the first with: {first}")
    masked = mask_groups(output, rows, groups, failed)
    fill_experts(output, rows, failed)
    metrics: dict[str, Any] = dict(output.get("rollout_metrics") or {})
    if failed and len(failed) < len(groups):
        metrics |= scored_metrics(batch, output, rows, failed)
    metrics["agentenv/failed_rollouts"] = len(failed)
    metrics["agentenv/masked_groups"] = len(masked)
    for failure in failures:
        key = f"agentenv/failed/{failure.kind}"
        metrics[key] = metrics.get(key, 0) + 1
    output["rollout_metrics"] = metrics
    return output


def scored_metrics(batch: dict[str, Any], output: dict[str, Any], rows: Rows, failed: set[int]) -> dict[str, Any]:
    """SkyRL's rollout metrics over the scored rollouts alone; ``environment/failed`` counts all."""
    kept = [row for row, owner in enumerate(rows.owners) if owner not in failed]
    times = output.get("trajectory_generation_times")
    last = [row for row in kept if rows.last[row]]
    metrics: dict[str, Any] = third_party("skyrl.train.generators.utils").get_rollout_metrics(
        [output["response_ids"][row] for row in kept],
        [output["rewards"][row] for row in kept],
        [output["env_metrics"][row] for row in kept],
        [batch["env_classes"][rows.owners[row]] for row in kept],
        [output["loss_masks"][row] for row in kept],
        trajectory_completion_times=None if times is None else [times[row] for row in last],
    )
    metrics["environment/failed"] = len(failed) / len(batch["prompts"])
    return metrics
