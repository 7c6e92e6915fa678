"""Engines that do not answer, trainers that give up: the episode ends, and nothing is left of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.training.verl.adapter import write_parquet_rows
from agent_env.training.verl.parquet import read_parquet
from agent_env.training.verl.play import play
from agent_env.training.verl.rehearsal import StandInEngine
from agent_env.training.verl.row import read_row

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.rollout.row import EpisodeRow
    from agent_env.training.verl.engine import Sampled


class Silent(StandInEngine):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__(lambda messages, tools: {}, None)
        self.asked = asyncio.Event()

    async def sample(self, ids: list[int], limit: int) -> Sampled:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")


async def _row(url: str, folder: Path, **settings: Any) -> EpisodeRow:
    files = await write_parquet_rows(url, folder, RowSettings(reset_timeout=10, **settings), only={"eval": 1})
    return read_row(read_parquet(files[0])[0], prompt_key="prompt")


def test_an_engine_that_does_not_answer_is_a_failure(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            row = await _row(served.url, tmp_path / "rows", model_timeout=0.2)
            result, model = await play(row, Silent(), room=100)
            assert result.failure is not None
            assert (result.failure.kind, result.reward, model.tokens.mask) == ("model_timeout", None, [])
            await served.quiet()

    asyncio.run(main())


def test_a_trainer_that_gives_up_leaves_nothing_running(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            row = await _row(served.url, tmp_path / "rows")
            engine = Silent()
            playing = asyncio.create_task(play(row, engine, room=100))
            await asyncio.wait_for(engine.asked.wait(), 10)
            playing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await playing
            await served.quiet()

    asyncio.run(main())


def test_a_server_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            row = await _row(served.url, tmp_path / "rows", model_timeout=1)
        result, _ = await play(replace(row, reset_timeout=0.5), Silent(), room=100)
        assert result.failure is not None
        assert (result.failure.kind, result.reward) == ("server", None)

    asyncio.run(main())
