"""Rows, and what the rest of a rehearsal rests on."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings
from agent_env.testing.small import WORD, serve_in_process, small_bundle
from agent_env.testing.standin import calls, say
from agent_env.training.nemo_gym.adapter import NemoGymAdapter
from agent_env.training.nemo_gym.rows import NemoGymRow, responses_tools
from agent_env.training.nemo_gym.settings import ServerSettings
from agent_env.training.nemo_gym.wire import read_ending, read_row
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "function_call_output", "reasoning"]) | JSON,
        "role": st.sampled_from(["assistant", "user"]) | JSON,
        "content": JSON | st.lists(st.fixed_dictionaries({"type": st.just("output_text"), "text": JSON})),
        "arguments": JSON,
    },
)


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def test_a_row_has_the_form_of_the_responses_api() -> None:
    schema = {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}
    tools = json.dumps([tool("set_hour", description="Sets it.", parameters=schema), tool("end_turn")])
    task = {"id": "t-7", "name": "t", "index": 7, "prompt": "Çok güzel?", "system_prompt": "Be brief."}
    row = json.loads(NemoGymRow(RowSettings(tool_timeout=3, token_var="VAR"))("train", task, tools))
    assert row["responses_create_params"]["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Çok güzel?"},
    ]
    first, last = row["responses_create_params"]["tools"]
    assert first == {
        "type": "function",
        "name": "set_hour",
        "description": "Sets it.",
        "parameters": schema,
        "strict": False,
    }
    assert last["parameters"] == {"type": "object", "properties": {}}
    assert row["agent_ref"] == {"type": "responses_api_agents", "name": "agentenv_simple_agent"}
    read = read_row(row)
    assert (read.split, read.index, read.seed, read.token_var) == ("train", 7, None, "VAR")
    assert (read.tool_timeout, read.reset_timeout) == (3.0, 600.0)


@pytest.mark.parametrize("name", ["verify", "seed_session", "aggregate_metrics", "/verify"])
def test_a_tool_cannot_have_the_name_of_a_path(name: str) -> None:
    with pytest.raises(UsageError, match="rename the tool"):
        responses_tools(json.dumps([tool("look"), tool(name)]))


@pytest.mark.parametrize(
    ("mode", "words"), [("drop", "cannot drop a row"), ("zero", "mask or raise, got 'zero'"), ("", "mask or raise")]
)
def test_modes_that_nemo_gym_does_not_have_are_refused(mode: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ServerSettings("http://x", on_infra_failure=mode)


@given(JSON | st.fixed_dictionaries({"output": JSON | st.lists(ITEM, max_size=4)}))
def test_any_response_is_read_or_refused(response: Any) -> None:
    try:
        ending = read_ending(response)
    except UsageError:
        assert not (isinstance(response, dict) and isinstance(response.get("output"), list))  # pyright: ignore[reportUnknownMemberType]
    else:
        assert ending.response.encode() is not None
        assert 0 <= ending.invalid_calls <= len(response["output"])


OWN = st.fixed_dictionaries(
    {"split": st.text() | JSON, "index": st.integers() | JSON},
    optional={"seed": JSON, "token_var": JSON, "tool_timeout": st.floats(), "reset_timeout": st.just(3) | JSON},
)


@given(JSON | st.fixed_dictionaries({"agentenv": JSON | OWN, "responses_create_params": JSON}))
def test_any_row_is_read_or_refused(row: Any) -> None:
    body = cast("dict[str, Any]", row) if isinstance(row, dict) else {"agentenv": row}
    own = body.get("agentenv")
    try:
        read = read_row(body)
    except UsageError:
        assert not (isinstance(own, dict) and own == {"split": "train", "index": 0})
    else:
        assert isinstance(own, dict)
        assert (read.split, read.index) == (own["split"], own["index"])


def test_a_rollout_that_has_no_turn_left_is_truncated() -> None:
    output = [{"type": "function_call", "arguments": "{}"}, {"type": "function_call_output", "output": "x"}]
    assert read_ending({"output": output}).truncated
    assert not read_ending({"output": []}).truncated
    assert read_ending({"output": [], "incomplete_details": {"reason": "max_output_tokens"}}).truncated


def test_a_rehearsal_counts_what_the_agent_answers_itself(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        del tools
        if len(messages) == 1:
            return calls(("look", "{"), ("look", "[]"), ("jump", {}), ("look", {}), content="Let me see.")
        assert [message["role"] for message in messages[2:]] == ["tool"] * 4
        return say(WORD)

    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            plan = RehearsalPlan(served.url, "train", 1, 1, reply)
            events = [event async for event in NemoGymAdapter().rehearse(plan)]
            await served.quiet()
        (sample,) = (event for event in events if isinstance(event, RehearsalSample))
        assert (sample.reward, sample.failure) == (1.0, None)
        assert (sample.tool_calls, sample.invalid_calls, sample.turns) == (1, 2, 2)

    asyncio.run(main())
