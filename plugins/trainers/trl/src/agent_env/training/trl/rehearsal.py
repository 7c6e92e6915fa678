"""A rehearsal: TRL's loop of replies and tool calls over the real environments, with a Python function as the model."""

from __future__ import annotations

import asyncio
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.markup import find_markup
from agent_env.training.trl.spec import BundleSpec

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.result import Result
    from agent_env.training.trl.environment import BundleEnvironment

    Events = asyncio.Queue[RehearsalSample | RehearsalGroup | None]

_MOST_THREADS = 32


class Left(Exception):
    """Nobody waits for the rehearsal any more."""


def read_spec(plan: RehearsalPlan) -> BundleSpec:
    """The spec of the plan's server, its tasks read."""
    spec = BundleSpec(
        plan.url,
        train_split=plan.split,
        eval_split=plan.split,
        limit=plan.groups,
        token_var=plan.rows.token_var,
        tool_timeout=plan.rows.tool_timeout,
        reset_timeout=plan.rows.reset_timeout,
    )
    _ = spec.environment_classes
    return spec


async def play_groups(plan: RehearsalPlan, spec: BundleSpec, events: Events, left: threading.Event) -> None:
    """Play every group; ``left`` ends it early."""
    rows = spec.rows(plan.split)
    threads = min(_MOST_THREADS, plan.concurrency or len(rows) * plan.samples)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="agentenv-rehearsal") as pool:

        async def one(row: Mapping[str, Any]) -> RehearsalSample:
            sample = await loop.run_in_executor(pool, _sample, plan, spec, row, left)
            events.put_nowait(sample)
            return sample

        async def group(row: Mapping[str, Any]) -> None:
            # All end before the first error is raised: leaving the pool waits for its threads.
            ended = await asyncio.gather(*(one(row) for _ in range(plan.samples)), return_exceptions=True)
            if errors := [item for item in ended if isinstance(item, BaseException)]:
                raise errors[0]
            samples = tuple(item for item in ended if isinstance(item, RehearsalSample))
            scored = sum(sample.failure is None for sample in samples)
            kept = scored > 1 or scored == len(samples)  # TRL leaves the failed ones out of their group
            events.put_nowait(RehearsalGroup(str(row["task_id"]), kept, samples))

        done = await asyncio.gather(*(group(row) for row in rows), return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException) and not isinstance(outcome, Left):
            raise outcome


def _sample(plan: RehearsalPlan, spec: BundleSpec, row: Mapping[str, Any], left: threading.Event) -> RehearsalSample:
    began = time.perf_counter()
    if left.is_set():
        raise Left
    environment = spec.environment_classes[row["environment"]]()
    try:
        environment.reset(**row)
        rollout = _Rollout(plan, spec.tools[row["environment"]], environment, row, left)
        rollout.play()
        spec.reward_funcs(completions=[rollout.completion], environments=[environment])
        result = environment._result()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    finally:
        environment._close()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return rollout.sample(result, time.perf_counter() - began)


class _Rollout:
    """The part of a rollout that is TRL's: it asks, calls methods, and appends what they return."""

    def __init__(
        self,
        plan: RehearsalPlan,
        tools: list[dict[str, Any]],
        environment: BundleEnvironment,
        row: Mapping[str, Any],
        left: threading.Event,
    ) -> None:
        self._plan = plan
        self._tools = tools
        self._environment = environment
        self._row = row
        self._left = left
        self.completion: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.invalid_calls = 0
        self.tokens = 0

    def play(self) -> None:
        """One reply after the other until one has no call, or ``max_turns`` are played."""
        methods = _methods(self._environment)
        for turn in range(self._plan.rows.max_turns):
            reply = self._ask()
            self.completion.append(reply)
            calls = cast("list[dict[str, Any]]", reply.get("tool_calls") or [])
            if not calls and (markup := find_markup(str(reply.get("content") or ""))) is not None:
                self.warnings.append(f"the reply holds the call markup {markup.found!r} that was not parsed as a call")
            if not calls or turn + 1 == self._plan.rows.max_turns:
                return
            for call in calls:
                self._check()
                name = str(call["function"]["name"])
                self.completion.append({"role": "tool", "name": name, "content": self._call(methods, name, call)})

    def sample(self, result: Result, seconds: float) -> RehearsalSample:
        """What the rollout was."""
        return RehearsalSample(
            task_id=str(self._row["task_id"]),
            reward=result.reward,
            scores=dict(result.scores),
            tool_calls=result.tool_calls,
            invalid_calls=result.invalid_calls,
            failure=result.failure,
            turns=sum(message["role"] == "assistant" for message in self.completion),
            trained_tokens=0 if result.failure is not None else self.tokens,
            seconds=seconds,
            timings=dict(result.timings),
            warnings=tuple(self.warnings),
            transcript=[*self._row["prompt"], *self.completion],
        )

    def _ask(self) -> dict[str, Any]:
        from agent_env.testing.standin.replies import engine_message
        from agent_env.testing.standin.tokens import completion_tokens

        self._check()
        messages = [*self._row["prompt"], *self.completion]
        message = engine_message(self._plan.reply(messages, self._tools))
        self.tokens += len(completion_tokens(message))
        for call in message["tool_calls"] or ():
            # A tokenizer's parser gives TRL the arguments as an object.
            arguments = read_arguments(call["function"]["arguments"])
            if arguments.value is not None:
                call["function"]["arguments"] = arguments.value
        return message

    def _call(self, methods: Mapping[str, Callable[..., str]], name: str, call: Mapping[str, Any]) -> str:
        try:
            if name not in methods:
                raise ValueError(f"Tool {name} not found.")
            return methods[name](**call["function"]["arguments"])
        except (TypeError, ValueError) as error:
            return str({"error": str(error)})

    def _check(self) -> None:
        if self._left.is_set():
            raise Left


def _methods(environment: BundleEnvironment) -> dict[str, Callable[..., str]]:
    """The methods that TRL would find, by the name that the model calls."""
    found = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    bound = [getattr(environment, name) for name, _ in found if name != "reset" and not name.startswith("_")]
    return {method.__name__: method for method in bound}
