"""The small example bundles, played as a user would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Episode, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

EXAMPLES = Path(__file__).parents[3] / "examples"


async def leave_a_file(episode: Episode) -> str:
    await episode.call_tool("bash", {"command": "echo goodbye > /app/greeting/goodbye.txt"})
    return "done"


async def say_hello(episode: Episode) -> str:
    assert [tool.name for tool in episode.tools] == ["end_turn"]
    return "hello"


@pytest.mark.parametrize(("task", "act"), [("errand", leave_a_file), ("hello", say_hello)])
def test_hello(task: str, act: Callable[[Episode], Awaitable[str]], tmp_path: Path) -> None:
    async def play() -> Outcome:
        options = {"process": {"state_dir": str(tmp_path)}}
        async with Engine(load_bundle(EXAMPLES / "hello"), sandbox_options=options) as engine:
            index = next(entry.index for entry in engine.bundle.entries("all") if entry.name == task)
            episode = engine.episode(engine.bundle.task("all", index))
            await episode.start()
            outcome: Any = await episode.end_turn(await act(episode))
            assert isinstance(outcome, Outcome)
            return outcome

    outcome = asyncio.run(play())
    assert (outcome.failure, outcome.reward) == (None, 1.0)
