"""The small parts: arguments, markup, tool schemas, the supervisor, the chat endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_env.errors import Failure
from agent_env.plugin.parser import CallAttempt, CallStatus, ParsedReply, StreamParser, ToolCallParser
from agent_env.plugin.tools import ToolSpec
from agent_env.rollout import ChatModel, ModelFailed, Reply, Rollout, Settings, Supervisor, Target
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.chat import read_reply
from agent_env.rollout.markup import find_markup
from agent_env.rollout.result import json_safe
from agent_env.rollout.text import plain_text
from agent_env.rollout.tools import tools_difference
from agent_env.testing.standin import StandInModel, say
from agent_env.testing.standin.episodes import FakeEpisodes
from hypothesis import given
from hypothesis import strategies as st

json_object = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(json_object)
def test_every_json_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(value)).value == value
    assert read_arguments(value).value == value


@given(st.text() | st.binary() | st.integers() | st.none() | st.lists(st.integers()))
def test_anything_else_has_a_reason(raw: Any) -> None:
    read = read_arguments(raw)
    assert (read.value is None) == bool(read.problem)


@pytest.mark.parametrize(
    ("text", "parser"),
    [
        ('<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>', "qwen25"),
        ("<tool_call><function=a><parameter=k>\n1\n</parameter></function></tool_call>", "qwen3_coder"),
        ("<function=a>{}</function>", "qwen3_coder"),
        ("<tool_call>a\n<arg_key>k</arg_key>\n<arg_value>1</arg_value></tool_call>", "glm45"),
        ('<|python_tag|>{"name": "a", "parameters": {}}', "llama3"),
        ('[TOOL_CALLS] [{"name": "a", "arguments": {}}]', "mistral"),
        ("[TOOL_CALLS]a[ARGS]{}", "mistral"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>functions.a:0", "kimi_k2"),
        ("<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function", "deepseekv3"),
        ("<\uff5cDSML\uff5cfunction_calls>", "deepseekv32"),
        ('<minimax:tool_call><invoke name="a"></invoke></minimax:tool_call>', "minimax-m2"),
        ("<|channel|>commentary to=functions.a<|constrain|>json<|message|>{}<|call|>", "gpt-oss"),
        ("assistant to=functions.a json {}", "gpt-oss"),
        ("<|tool_call_start|>[a()]<|tool_call_end|>", "lfm2"),
    ],
)
def test_markup_names_its_parser(text: str, parser: str) -> None:
    markup = find_markup(f"Let me see.\n{text}")
    assert markup is not None
    assert markup.parsers[0] == parser
    assert f"--tool-call-parser {parser}" in str(markup)


@pytest.mark.parametrize(
    "text", ["", "plain", "a < b and b > c", "call the tool, to = functions of x", "[tool_calls]", "<think>hm</think>"]
)
def test_plain_text_is_no_markup(text: str) -> None:
    assert find_markup(text) is None


SPEC = ToolSpec("a", "words", {"type": "object", "properties": {"title": {"type": "string", "description": "x"}}})


def test_tools_differ_by_name_and_parameters_not_by_wording() -> None:
    offered = SPEC.openai()
    offered["function"]["description"] = "other words"
    assert tools_difference([offered], [SPEC]) == ""
    renamed = ToolSpec("b", "", SPEC.input_schema)
    assert "offers the tools a, but the task has b" in tools_difference([offered], [renamed])
    retyped = ToolSpec("a", "", {"type": "object", "properties": {"title": {"type": "integer"}}})
    assert "parameters of a differ" in tools_difference([offered], [retyped])
    # A parameter named like a word of JSON Schema is a parameter.
    without = ToolSpec("a", "", {"type": "object", "properties": {}})
    assert "parameters of a differ" in tools_difference([offered], [without])
    assert tools_difference([], []) == ""


def test_json_safe_takes_anything() -> None:
    value = {1: float("nan"), "a": [float("inf"), "\ud800", (1, 2)], "b": {"c": object, "d": 2.5}}
    text = json.dumps(json_safe(value), allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text)["1"] == 0.0


def test_plain_text_reads_strings_and_parts() -> None:
    assert plain_text("a\ud800") == "a?"
    assert plain_text([{"type": "text", "text": "a"}, "b", {"type": "image"}, 3]) == "ab"
    assert plain_text(None) == ""


@pytest.mark.parametrize("payload", [None, [], {}, {"choices": []}, {"choices": [3]}, {"choices": [{"message": "x"}]}])
def test_answers_without_a_message_are_refused(payload: Any) -> None:
    with pytest.raises(ModelFailed):
        read_reply(payload)


class FakeParser(ToolCallParser):
    """Reads ``CALL name json``."""

    name = "fake"

    def parse(self, text: str, tools: Any) -> ParsedReply:
        attempts: list[CallAttempt] = []
        for line in text.splitlines():
            if line.startswith("CALL "):
                _, name, raw = line.split(" ", 2)
                try:
                    attempts.append(CallAttempt(CallStatus.OK, name, json.loads(raw), line, (0, len(line))))
                except ValueError:
                    attempts.append(CallAttempt(CallStatus.INVALID_JSON, None, None, line, (0, len(line))))
        content = "\n".join(line for line in text.splitlines() if not line.startswith("CALL "))
        return ParsedReply(content, None, tuple(attempts))

    def stream(self, tools: Any) -> StreamParser:
        raise NotImplementedError


def test_a_parser_of_ours_reads_the_calls_and_the_echo_stays_verbatim(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    texts = ['Hm.\nCALL look {}\nCALL look {"a\nCALL peek {}', "It is a wall."]

    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return say(texts[sum(message["role"] == "assistant" for message in messages)])

    played = asyncio.run(play(episodes, reply, parser=FakeParser()))
    assert played.answers[0] == "a wall"
    assert "not valid JSON" in played.answers[1]
    assert "no tool named 'peek'" in played.answers[2]
    assert (played.result.tool_calls, played.result.invalid_calls, played.result.unknown_calls) == (1, 1, 1)
    assert played.session.requests[1]["messages"][2]["content"] == texts[0]
    assert episodes.sessions[0].responses == ["It is a wall."]
    (sample,) = played.samples
    assert sample.trained_tokens == played.session.generated


def test_a_callable_is_a_model_too() -> None:
    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        return Reply({"role": "assistant", "content": "done"})

    async def broken(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        raise ZeroDivisionError("oh")

    async def main() -> None:
        episodes = FakeEpisodes()
        target = Target("http://bundle.example", "train", 0)
        result = await Rollout(target, [], episodes.schemas, model, connect=episodes.connect).play()
        assert result.reward == 1.0
        result = await Rollout(target, [], episodes.schemas, broken, connect=episodes.connect).play()
        assert result.failure == Failure("model", "ZeroDivisionError: oh")
        assert episodes.open_sessions == 0

    asyncio.run(main())


def test_the_supervisors_clock_stands_still_during_tool_calls() -> None:
    async def main() -> None:
        async def tool() -> str:
            await asyncio.sleep(0.6)
            return "late"

        calls = 0

        async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
            nonlocal calls
            calls += 1
            function = {"name": "look", "arguments": "{}"}
            return Reply({"content": "", "tool_calls": [{"function": function}] if calls == 1 else None})

        episodes = FakeEpisodes({"look": tool})
        settings = Settings(reset_timeout=0.1, model_timeout=0.1, max_turns=2, tool_timeout=5)
        target = Target("http://bundle.example", "train", 0)
        rollout = Rollout(target, [], episodes.schemas, model, settings, connect=episodes.connect)
        result = await Supervisor().play(rollout)
        assert (result.reward, result.failure) == (1.0, None)

    asyncio.run(main())


def test_a_cancelled_rollout_is_torn_down_even_when_cancelled_again() -> None:
    async def main() -> None:
        async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
            await asyncio.sleep(30)
            raise AssertionError

        episodes = FakeEpisodes()
        rollout = Rollout(
            Target("http://bundle.example", "train", 0), [], episodes.schemas, model, connect=episodes.connect
        )
        playing = asyncio.create_task(Supervisor().play(rollout))
        while not episodes.open_sessions:  # noqa: ASYNC110
            await asyncio.sleep(0)
        playing.cancel()
        await asyncio.sleep(0)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert episodes.open_sessions == 0

    asyncio.run(main())


def test_the_calls_of_a_rollout_share_a_connection() -> None:
    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return say("yes")

    async def main() -> None:
        async with StandInModel(reply) as endpoint:
            async with ChatModel(endpoint.url) as model:
                for _ in range(3):
                    await model([], [])
            assert endpoint.connections == 1
            for _ in range(2):
                await model([], [])
            assert endpoint.connections == 3

    asyncio.run(main())


def test_a_plain_chat_endpoint_without_sessions_works() -> None:
    async def main() -> None:
        async with StandInModel(lambda messages, tools: say(f"{len(messages)} {len(tools)}")) as model:
            for base_url in (model.url, f"{model.url}/v1", f"{model.url}/v1/"):
                reply = await ChatModel(base_url)([{"role": "user", "content": "a\ud800"}], [])
                assert reply.message["content"] == "1 0"

    asyncio.run(main())


def test_addresses_that_are_none_are_refused_at_once() -> None:
    async def main() -> None:
        for url in ("nonsense", "ftp://x", "http://", ""):
            with pytest.raises(ModelFailed):
                await ChatModel(url, timeout=5)([], [])

    asyncio.run(main())
