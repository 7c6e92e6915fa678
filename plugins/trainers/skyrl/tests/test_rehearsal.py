"""Rehearsals of GridSim: written as text and parsed again, an episode is what it is in chat messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import EpisodeFailed
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.parsers import load_parser
from agent_env.testing.policies import load_policy
from agent_env.testing.rehearsal import rehearse
from agent_env.testing.standin import calls
from agent_env.testing.standin.replies import engine_message
from agent_env.training.skyrl.rehearsal import write_reply
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from agent_env.testing.rehearsal_report import Rehearsal

GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)


def numbers(played: Rehearsal) -> dict[str, list[tuple[Any, ...]]]:
    return {
        group.task_id: [
            (sample.reward, dict(sample.scores), sample.tool_calls, sample.invalid_calls, sample.turns, sample.failure)
            for sample in group.samples
        ]
        for group in played.groups
    }


@pytest.mark.parametrize("parser", ["hermes", "qwen3_coder"])
def test_it_plays_as_miles_does(parser: str) -> None:
    policy = load_policy(GRIDSIM, "greedy" if parser == "qwen3_coder" else "clumsy")

    async def play(trainer: str) -> Rehearsal:
        rows = RowSettings(parser=parser)
        return await rehearse(GRIDSIM, policy, trainer=trainer, split="eval", groups=3, samples=1, rows=rows)

    ours, theirs = asyncio.run(play("skyrl")), asyncio.run(play("miles"))
    assert len(ours.groups) == 3
    assert numbers(ours) == numbers(theirs)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), JSON), JSON)
def test_what_is_written_is_read_again(arguments: dict[str, Any], other: Any) -> None:
    parser = load_parser("hermes")
    raw = other if isinstance(other, str) else json.dumps(other)
    parsed = parser.parse(write_reply(engine_message(calls(("tool", arguments))), parser), [])
    assert [(call.name, call.arguments) for call in parsed.calls] == [("tool", arguments)]
    text = write_reply(engine_message(calls(("tool", raw))), parser)
    assert raw in text or isinstance(other, dict)


def test_a_format_that_cannot_hold_a_call_is_said() -> None:
    with pytest.raises(EpisodeFailed, match="qwen3_coder"):
        write_reply(engine_message(calls(("tool", '{"plan": ['))), load_parser("qwen3_coder"))
