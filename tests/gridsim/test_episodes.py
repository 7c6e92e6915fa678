"""Whole episodes: fresh env in the process sandbox, tools, verifier in a child process, reward."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Outcome

if TYPE_CHECKING:
    from pathlib import Path

INFEASIBLE = [0] * 17 + [99] + [0] * 6


def test_the_fixed_points_come_out_of_whole_episodes(
    bundle_path: Path, eval_rows: list[dict[str, Any]], market: Any
) -> None:
    async def play(engine: Engine, index: int, plan: list[int] | None) -> Outcome:
        episode = engine.episode(engine.bundle.task("eval", index))
        try:
            turn = await episode.start(timeout=60)
            assert eval_rows[index]["situation"] in turn.prompt
            day = await episode.call_tool("read_day", {}, timeout=10)
            assert day.structured == eval_rows[index]["day"] | {"checks_left": 5}
            if plan is not None:
                assert not (await episode.call_tool("submit_schedule", {"plan": plan}, timeout=10)).is_error
            outcome = await episode.end_turn("done", timeout=60)
        finally:
            await episode.close()
        assert isinstance(outcome, Outcome)
        return outcome

    async def scene() -> None:
        async with Engine(load_bundle(bundle_path)) as engine:
            assert len(engine.bundle.splits["all"]) == 2200
            best = [market.best_plan(market.Day.from_fields(row["day"])) for row in eval_rows[:2]]
            plans = [(0, [0] * 24), (0, best[0]), (1, best[1]), (0, INFEASIBLE), (1, None)]
            outcomes = await asyncio.gather(*(play(engine, index, plan) for index, plan in plans))
        assert [outcome.failure for outcome in outcomes] == [None] * 5
        assert [outcome.reward for outcome in outcomes] == [0.2, 1.0, 1.0, 0.0, 0.0]
        assert [outcome.scores for outcome in outcomes] == [{"grade": outcome.reward} for outcome in outcomes]

    asyncio.run(scene())
