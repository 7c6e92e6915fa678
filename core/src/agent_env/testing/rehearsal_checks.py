"""The checks of a trainer adapter: its rehearsals, and all of them together."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from agent_env.errors import AgentEnvError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample
from agent_env.testing.small import WORD, serve_in_process
from agent_env.testing.standin import call, say
from agent_env.testing.trainer_checks import SETTINGS, RowChecks, TrainerCase, folder_with_bundle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from agent_env.testing.checks import Target

    Event = RehearsalSample | RehearsalGroup
    Policy = Callable[[list[dict[str, Any]], list[dict[str, Any]]], dict[str, Any]]


def find(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Looks, and says the word."""
    del tools
    return say(WORD) if any(message["role"] == "tool" for message in messages) else call("look")


def guess(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Says something wrong."""
    del messages, tools
    return say("plugh")


def kill(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Ends the env."""
    del messages, tools
    return call("die")


class TrainerChecks(RowChecks):
    """The contract of `agent_env.plugin.trainer.TrainerAdapter`."""

    kind: ClassVar[str] = "trainer"
    case: TrainerCase

    @classmethod
    def case_of(cls, target: Target) -> TrainerCase:
        """The adapter; the option ``sessions=a,b`` names session kinds to rehearse with."""
        sessions = [name.strip() for name in target.options.get("sessions", "").split(",") if name.strip()]
        return TrainerCase(target.name, sessions=tuple(sessions) or (None,), registry=target.registry)

    def test_a_rehearsal_plays_groups(self) -> None:
        """Every sample comes as it ends and every group after its samples, with the episode's score and counts."""
        for session in self.case.sessions:
            events = self._rehearse(find, session=session)
            samples = [event for event in events if isinstance(event, RehearsalSample)]
            groups = [event for event in events if isinstance(event, RehearsalGroup)]
            assert (len(samples), len(groups)) == (4, 2), f"{len(samples)} samples and {len(groups)} groups"
            assert len({group.task_id for group in groups}) == 2, f"two groups of {groups[0].task_id!r}"
            for group in groups:
                assert len(group.samples) == 2, f"{len(group.samples)} samples in a group of 2"
                late = [one for one in group.samples if one not in events[: events.index(group)]]
                assert not late, "a group came before its samples"
                for sample in group.samples:
                    assert sample.task_id == group.task_id, f"{sample.task_id!r} in the group of {group.task_id!r}"
                    self._check_scored(sample, 1.0)
                    counts = (sample.tool_calls, sample.invalid_calls, sample.turns)
                    assert counts == (1, 0, 2), f"tool calls, invalid calls and turns are {counts}, played (1, 0, 2)"
                    assert sample.trained_tokens > 0, "no token would be trained on"
                    assert sample.transcript, "the transcript is empty"

    def test_a_wrong_answer_is_a_reward_of_0(self) -> None:
        """A model's mistake is a score, not a failure."""
        for event in self._rehearse(guess):
            if isinstance(event, RehearsalSample):
                self._check_scored(event, 0.0)

    def test_a_dead_env_is_a_failure(self) -> None:
        """An env that dies is a failure without a reward, and its group is not kept."""
        for event in self._rehearse(kill):
            if isinstance(event, RehearsalGroup):
                assert not event.kept, "the group of a failed episode is kept"
            else:
                assert event.failure is not None, f"no failure, the reward is {event.reward!r}"
                assert event.failure.kind == "env", f"the failure is {event.failure}"
                assert event.reward is None, f"a failed episode has the reward {event.reward!r}"

    def test_an_unknown_split_is_an_error(self) -> None:
        """It raises an `AgentEnvError` before anything is played."""
        try:
            events = self._rehearse(find, split="no-such-split")
        except AgentEnvError as error:
            message = str(error)
        else:
            raise AssertionError(f"it played {len(events)} samples of a split that does not exist")
        assert "no-such-split" in message, f"the error does not name the split: {message}"

    def test_a_rehearsal_can_be_left(self) -> None:
        """Closing the generator early ends the episodes; no task goes on."""
        asyncio.run(self._leave())

    def _check_scored(self, sample: RehearsalSample, reward: float) -> None:
        assert sample.failure is None, f"the episode failed: {sample.failure}"
        assert sample.reward == reward, f"the reward is {sample.reward!r}, the verifier gave {reward}"
        assert dict(sample.scores) == {"word": reward}, f"the scores are {dict(sample.scores)}"
        assert sample.seconds >= 0

    def _rehearse(self, reply: Policy, *, session: str | None = None, split: str = "train") -> list[Event]:
        async def main() -> list[Event]:
            with folder_with_bundle() as (bundle, _):
                async with serve_in_process(bundle, registry=self.case.registry) as served, asyncio.timeout(60):
                    plan = RehearsalPlan(served.url, split, 2, 2, reply, session=session, rows=SETTINGS)
                    events = [event async for event in self.case.adapter().rehearse(plan)]
                    await served.quiet()
            return events

        return asyncio.run(main())

    async def _leave(self) -> None:
        with folder_with_bundle() as (bundle, _):
            async with serve_in_process(bundle, registry=self.case.registry) as served, asyncio.timeout(60):
                before = asyncio.all_tasks()
                plan = RehearsalPlan(served.url, "train", 2, 4, find, rows=SETTINGS, concurrency=1)
                playing = cast("AsyncGenerator[Event, None]", self.case.adapter().rehearse(plan))
                async with aclosing(playing) as events:
                    async for _event in events:
                        break
                await served.quiet()
                await asyncio.sleep(0)
                own = Path(inspect.getfile(type(self.case.adapter()))).parent
                left = [task for task in asyncio.all_tasks() - before if _file(task).is_relative_to(own)]
                assert not left, f"a task goes on: {left[0]!r}"


def _file(task: asyncio.Task[Any]) -> Path:
    """Where the code of a task stands."""
    return Path(str(getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", "")))
