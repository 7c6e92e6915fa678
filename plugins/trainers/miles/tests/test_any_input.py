"""Whatever comes in, `agent.run` returns JSON with a verdict."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from agent_env.rollout.result import result_dict
from agent_env.testing.standin import StandInModel
from agent_env.testing.standin.episodes import FakeEpisodes
from agent_env.training.miles import agent
from agent_env.training.miles.run import play
from hypothesis import given, settings
from hypothesis import strategies as st

json_value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def maybe(**optional: Any) -> st.SearchStrategy[Any]:
    """Objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=optional)


broken = st.sampled_from(["{}", "null", "[1]", '"x"', '{"a": ', "", "NaN", '{"a": 1e999}', '{"response": "\\ud800"}'])
objects = st.dictionaries(st.sampled_from(["response", "door", "a"]), json_value, max_size=2).map(json.dumps)
arguments = broken | st.text(max_size=12) | objects
function = maybe(name=st.sampled_from(["look", "end_turn", "peek", ""]) | json_value, arguments=arguments | json_value)
tool_call = json_value | maybe(id=json_value, index=json_value, type=json_value, function=function | json_value)
message = maybe(
    role=st.just("assistant") | json_value,
    content=st.text(max_size=20) | st.just("<tool_call>\n{}") | json_value,
    reasoning_content=json_value,
    tool_calls=st.lists(tool_call, max_size=4) | json_value,
    refusal=json_value,
)
finish = st.sampled_from(["stop", "tool_calls", "length", "abort", None]) | json_value
choice = json_value | maybe(message=message | json_value, finish_reason=finish)
payload = json_value | maybe(choices=st.lists(choice, max_size=2), usage=maybe(total_tokens=json_value) | json_value)


def check(result: dict[str, Any]) -> None:
    text = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text) == result
    assert type(result["reward"]) is float
    assert math.isfinite(result["reward"])
    assert ("agentenv_failure" in result) or result["reward"] == 1.0
    assert not set(result) & {"raw_reward", "round_number", "messages", "lifecycle", "leaf", "opd_student_top_logprobs"}


class Raw(StandInModel):
    """A chat endpoint that answers 200 with anything at all."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(lambda messages, tools: None)
        self.answers = answers

    async def _chat(self, session: Any, body: bytes) -> Any:
        from agent_env.testing.standin.http import Answer

        json.loads(body)
        answer = self.answers.pop(0) if self.answers else {"choices": [{"message": {"content": "end"}}]}
        return Answer(200, json.dumps(answer).encode())


def look(**arguments: Any) -> str:
    return "a wall"


@settings(max_examples=150, deadline=None)
@given(st.lists(payload, max_size=3), st.none() | st.integers(1, 3))
def test_any_reply_of_the_model(answers: list[Any], max_seq_len: int | None) -> None:
    async def main() -> None:
        episodes = FakeEpisodes({"look": look}, prompts=["One?", "Two?"])
        metadata = {
            "split": "train",
            "index": 0,
            "tools": episodes.schemas,
            "agentenv": {"url": "http://bundle.example", "reset_timeout": 5},
        }
        async with Raw(answers) as model:
            result = await play(
                model.open_session(), [{"role": "user", "content": "Go."}], {}, metadata, connect=episodes.connect
            )
        check(result_dict(result))
        assert episodes.open_sessions == 0
        if result.failure is not None:
            assert result.failure.kind in {"model", "aborted"}

    asyncio.run(main())


# An address that refuses at once, so that a row which is accepted by chance ends soon.
url = st.just("ftp://nowhere") | st.none()
own = maybe(
    url=url,
    max_turns=json_value,
    tool_timeout=json_value,
    reset_timeout=json_value,
    token_var=json_value,
    parser=json_value,
)
row = maybe(
    split=st.just("train") | json_value,
    index=st.just(0) | json_value,
    tools=json_value,
    max_seq_len=json_value,
    seed=json_value,
    task_id=json_value,
    agentenv=json_value | own,
)


@settings(deadline=None)
@given(st.text(max_size=5), json_value | st.just([{"role": "user", "content": "Go."}]), json_value, json_value | row)
def test_any_arguments(base_url: str, prompt: Any, request: Any, metadata: Any) -> None:
    result = asyncio.run(agent.run(base_url=base_url, prompt=prompt, request_kwargs=request, metadata=metadata))
    check(result)
    assert "agentenv_failure" in result


def test_reasons_of_a_bad_row_name_the_mend() -> None:
    def failure(prompt: Any, metadata: Any) -> str:
        return str(asyncio.run(agent.run("http://x", prompt, {}, metadata))["agentenv_failure"])

    good: dict[str, Any] = {"split": "train", "index": 0, "tools": [], "agentenv": {"url": "ftp://x"}}
    messages = [{"role": "user", "content": "Go."}]
    assert "--apply-chat-template" in failure("a text", good)
    assert "--metadata-key" in failure(messages, {"split": "train"})
    assert "--tool-key" in failure(messages, {**good, "tools": "[]"})
    assert "'index'" in failure(messages, {**good, "index": -1})
    assert "no server address" in failure(messages, good)
