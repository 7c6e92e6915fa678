"""Whatever a client sends, it gets one reply for each frame, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agent_env.errors import ServerError
from agent_env.openenv.client.replies import tool_reply, tool_specs, turn_reply
from agent_env.openenv.server.frames import Refused
from agent_env.openenv.server.messages import read_frame
from agent_env.openenv.wire import read_json, write_json
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
words = st.sampled_from(
    [
        "reset",
        "step",
        "state",
        "mcp",
        "call_tool",
        "list_tools",
        "add",
        "end_turn",
        "slow",
        "single",
        "all",
        "tools/call",
    ]
)
keys = st.sampled_from(
    [
        *("type", "data", "tool_name", "arguments", "metadata", "agentenv", "timeout_s", "split", "index", "seed"),
        *("episode_id", "jsonrpc", "method", "params", "id", "invalid_calls", "truncated"),
    ]
)
likely = st.recursive(
    words | st.integers(-1, 3) | st.booleans() | st.none(),
    lambda inner: st.dictionaries(keys, inner, max_size=6) | st.lists(inner, max_size=2),
    max_leaves=12,
)
messages = st.fixed_dictionaries({"type": words}, optional={"data": likely | values, "id": values})
frames = (
    messages.map(json.dumps)
    | likely.map(json.dumps)
    | values.map(json.dumps)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)


@given(st.text() | values.map(json.dumps) | messages.map(json.dumps))
def test_reading_gives_a_request_or_a_refusal(text: str) -> None:
    try:
        assert read_frame(text) is not None
    except Refused as refused:
        answer = json.loads(refused.frame())
        assert answer["type"] == "error"
        assert answer["data"]["code"] in {"INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR"}


@given(values)
def test_what_is_written_can_be_sent_and_read_back(value: Any) -> None:
    try:
        text = write_json(value)
    except ValueError:
        assert "NaN" in json.dumps(value) or "Infinity" in json.dumps(value)
        return
    assert json.dumps(read_json(text)) == json.dumps(value)
    assert text.encode().decode() == text


@given(st.dictionaries(st.sampled_from(["observation", "reward", "done", "metadata"]), values | likely))
def test_the_client_reads_any_reply(data: dict[str, Any]) -> None:
    reply = tool_reply(data)
    assert sum(part is not None for part in (reply.result, reply.error_type, reply.failure)) == 1
    for read in (turn_reply, tool_specs):
        try:
            read(data)
        except ServerError as error:
            assert str(error)  # noqa: PT017


def test_no_frame_ends_another_session_or_shifts_a_reply(serve: Any, raw: Any) -> None:
    url = serve()

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(frames, max_size=12))
    def fuzz(sent: list[str | bytes]) -> None:
        async def main() -> None:
            async with raw(url) as ws, raw(url) as other:
                await other.reset()
                for frame in sent:
                    await ws.send(frame)
                await ws.send({"type": "mcp", "data": {"jsonrpc": "2.0", "id": "last", "method": "none"}})
                replies = [await ws.read() for _ in range(len(sent) + 1)]
                assert [reply["type"] for reply in replies if reply["type"] == "mcp"]
                assert replies[-1]["data"]["id"] == "last"
                assert (await other.call("add", a=1, b=1))["data"]["observation"]["result"]["data"] == "2"

        asyncio.run(main())

    fuzz()
