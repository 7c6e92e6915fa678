"""The frames as they travel, each compared whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


def result(text: str, data: object = None, *, is_error: bool = False, structured: object = None) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "structured_content": structured,
        "meta": None,
        "data": text if data is None else data,
        "is_error": is_error,
    }


def observation(fields: dict[str, Any], *, metadata: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"observation": {"metadata": metadata or {}, **fields}, "reward": None, "done": False}
    if metadata:
        data["metadata"] = metadata
    return {"type": "observation", "data": {**data, **more}}


def test_an_episode_frame_by_frame(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            begun = await ws.reset(index=0)
            task = begun["data"]["metadata"]["task"]
            assert {"name": "add", "split": "single", "index": 0}.items() <= task.items()
            opened = {"prompt": "Add 2 and 3.", "system_prompt": "You add.", "task": task}
            assert begun == observation({}, metadata=opened)

            listed = await ws.ask({"type": "step", "data": {"type": "list_tools"}})
            tools = listed["data"]["observation"].pop("tools")
            assert listed == observation({})
            assert tools[0] == {"name": "add", "description": "The tool add", "input_schema": {"type": "object"}}
            assert [tool["name"] for tool in tools][-1] == "end_turn"

            got = await ws.call("add", a=2, b=3)
            assert got == observation({"tool_name": "add", "result": result("5"), "error": None})
            got = await ws.call("structured")
            told = result("½ ok", structured={"value": 1})
            assert got == observation({"tool_name": "structured", "result": told, "error": None})
            got = await ws.call("refuse")
            assert got == observation(
                {"tool_name": "refuse", "result": result("not today", is_error=True), "error": None}
            )

            state = await ws.ask({"type": "state"})
            episode_id = state["data"]["episode_id"]
            assert state == {
                "type": "state",
                "data": {"episode_id": episode_id, "step_count": 3, "task": task, "done": False},
            }

            over = await ws.call("end_turn", response="done")
            facts = over["data"]["metadata"]["agentenv"]
            assert facts["facts"]["tool_calls"] == 3
            assert facts["timings"].keys() == {"deploy_s", "tools_s", "verifier_s"}
            scores = {"grade": 1.0}
            told = result("The episode is over.", {"done": True, "reward": 1.0, "scores": scores})
            metadata = {"scores": scores, "task": task, "agentenv": facts}
            fields = {"tool_name": "end_turn", "result": told, "error": None}
            assert over == observation(fields, metadata=metadata, reward=1.0, done=True)

    asyncio.run(main(serve()))


def test_turns_follow_each_other(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            begun = await ws.reset(index=1)
            assert begun["data"]["metadata"]["prompt"] == "First."
            task = begun["data"]["metadata"]["task"]
            second = await ws.call("end_turn", response="one")
            told = result("Second.", {"prompt": "Second.", "system_prompt": None})
            fields = {"tool_name": "end_turn", "result": told, "error": None}
            assert second == observation(fields, metadata={"task": task})
            over = await ws.call("end_turn", response="nothing")
            assert (over["data"]["reward"], over["data"]["done"]) == (0.0, True)

    asyncio.run(main(serve()))


def test_the_models_mistakes_are_errors_of_the_call(serve: Any, raw: Any, call: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            unknown = (await ws.call("subtract"))["data"]
            assert unknown["observation"]["error"]["error_type"] == "tool_not_found"
            assert "add" in unknown["observation"]["error"]["message"]
            for arguments in ([1, 2], "a=1", 3, None, True):
                wrong = (await ws.ask(call("add", arguments)))["data"]
                assert wrong["observation"]["error"]["error_type"] == "invalid_args"
                assert (wrong["done"], wrong["reward"]) == (False, None)
            wrong = (await ws.call("end_turn", response=3))["data"]
            assert wrong["observation"]["error"]["error_type"] == "invalid_args"
            assert (await ws.call("add", a=1, b=1))["data"]["observation"]["result"]["data"] == "2"

    asyncio.run(main(serve()))


def test_an_env_failure_ends_the_episode_without_a_reward(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            begun = await ws.reset()
            dead = (await ws.call("die"))["data"]
            metadata = dead["metadata"]
            failure = metadata["agentenv"]["failure"]
            assert (dead["done"], dead["reward"]) == (True, None)
            assert failure["kind"] == "env"
            assert "calc" in failure["message"]
            assert metadata["status"] == "error"
            assert metadata["error"] == f"env: {failure['message']}"
            assert metadata["task"] == begun["data"]["metadata"]["task"]
            assert dead["observation"]["metadata"] == metadata
            assert dead["observation"]["error"]["error_type"] == "transport_error"

            late = (await ws.call("slow", notes={"timeout_s": 0.05}, seconds=30))["data"]
            assert late["observation"]["error"]["message"].startswith("the episode is over")
            await ws.reset()
            late = (await ws.call("slow", notes={"timeout_s": 0.05}, seconds=30))["data"]
            assert late["observation"]["error"]["error_type"] == "timeout"
            assert late["metadata"]["agentenv"]["failure"]["kind"] == "tool_timeout"
            assert (late["done"], late["reward"]) == (True, None)

    asyncio.run(main(serve()))


def test_after_the_end_nothing_plays(serve: Any, raw: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            await ws.call("end_turn", response="done")
            for tool in ("add", "end_turn"):
                late = (await ws.call(tool, a=1, b=1))["data"]
                assert (late["done"], late["reward"]) == (True, None)
                assert late["observation"]["error"] == {
                    "error_type": "execution_error",
                    "message": "the episode is over: send a reset to begin another",
                }
            listed = await ws.ask({"type": "step", "data": {"type": "list_tools"}})
            assert listed["data"]["done"] is True
            assert listed["data"]["observation"]["tools"]

    asyncio.run(main(serve()))
    assert world.deploys == 1


BAD_FRAMES: list[tuple[Any, str]] = [
    ("nonsense", "INVALID_JSON"),
    ("", "INVALID_JSON"),
    ('{"type": "reset", "data": {"index": NaN}}', "INVALID_JSON"),
    ("[" * 100_000, "INVALID_JSON"),
    ('{"a": ' + "1" * 5000 + "}", "INVALID_JSON"),
    (b"\x00\x01", "INVALID_JSON"),
    (b'{"type": "state"}', "INVALID_JSON"),
    ([1], "VALIDATION_ERROR"),
    (3, "VALIDATION_ERROR"),
    (None, "VALIDATION_ERROR"),
    ("null", "VALIDATION_ERROR"),
    ({}, "UNKNOWN_TYPE"),
    ({"type": "dance"}, "UNKNOWN_TYPE"),
    ({"type": ["step"]}, "UNKNOWN_TYPE"),
    ({"type": "step"}, "VALIDATION_ERROR"),
    ({"type": "step", "data": []}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"tool_name": 3}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "move"}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "list_tools", "x": 1}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"tool_name": "add", "timeout_s": 3}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"tool_name": "add", "metadata": [1]}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"tool_name": "add", "metadata": {"agentenv": {"timeout_s": -1}}}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"tool_name": "add"}, "timeout_s": 3}, "VALIDATION_ERROR"),
    ({"type": "state", "id": 1}, "VALIDATION_ERROR"),
    ({"type": "close", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "mcp"}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"split": "single"}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"index": 1}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"split": "single", "index": True}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"split": "single", "index": -1}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"splitt": "single"}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"episode_id": "x" * 256}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"episode_id": "a\nb"}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"split": "nowhere", "index": 0}}, "EXECUTION_ERROR"),
    ({"type": "reset", "data": {"split": "single", "index": 99}}, "EXECUTION_ERROR"),
    ({"type": "reset", "data": {"split": "single", "index": 0, "seed": 4}}, "EXECUTION_ERROR"),
    ({"type": "reset", "data": {"split": "single", "index": 2}}, "EXECUTION_ERROR"),
]


def test_bad_frames_are_answered_and_the_session_goes_on(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws, raw(url) as other:
            await other.reset()
            for frame, code in BAD_FRAMES:
                answer = await ws.ask(frame)
                assert answer["type"] == "error", frame
                assert answer["data"]["code"] == code, frame
                assert answer["data"]["message"], frame
                if code == "VALIDATION_ERROR":
                    first = answer["data"]["errors"][0]
                    assert answer["data"]["message"].startswith("Invalid message: ")
                    assert first["msg"] in answer["data"]["message"]
                    assert all(str(part) in answer["data"]["message"] for part in first["loc"])
                    assert all(entry.keys() == {"type", "loc", "msg", "input"} for entry in answer["data"]["errors"])
            assert (await ws.reset())["type"] == "observation"
            assert (await other.call("add", a=1, b=2))["data"]["observation"]["result"]["data"] == "3"

    asyncio.run(main(serve()))


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            {"type": "reset", "data": {"splitt": "single", "idx": 1}},
            "idx: Unknown argument; a reset takes split, index, seed, episode_id, timeout_s (and 1 more)",
        ),
        (
            {"type": "step", "data": {"type": "call_tool", "tool_name": "add", "args": {}}},
            "args: Extra inputs are not permitted; known: arguments, metadata, tool_name, type",
        ),
        (
            {"type": "step", "data": {"type": "list_tools", "all": True}},
            "all: Extra inputs are not permitted; known: metadata, type",
        ),
        ({"type": "state", "data": {}}, "data: Extra inputs are not permitted; known: type"),
        ({"type": "step", "data": {"type": "call_tool"}}, "tool_name: Field required"),
    ],
)
def test_the_message_names_the_first_problem_and_what_is_known(serve: Any, raw: Any, frame: Any, words: str) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            assert (await ws.ask(frame))["data"]["message"] == f"Invalid message: {words}"

    asyncio.run(main(serve()))


def test_a_step_before_the_reset_is_an_error(serve: Any, raw: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            for message in ({"type": "list_tools"}, {"tool_name": "add"}, {"tool_name": "end_turn"}):
                answer = await ws.ask({"type": "step", "data": message})
                assert answer == {
                    "type": "error",
                    "data": {"message": "no episode is open: send a reset first", "code": "EXECUTION_ERROR"},
                }
            assert (await ws.ask({"type": "state"}))["data"] == {"episode_id": None, "step_count": 0}

    asyncio.run(main(serve()))
    assert world.deploys == 0


def test_a_reset_that_is_refused_leaves_no_episode_to_play_on(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            assert (await ws.reset(split="nowhere"))["type"] == "error"
            assert (await ws.call("add", a=1, b=1))["data"]["message"].startswith("no episode is open")

    asyncio.run(main(serve()))


def test_seed_and_episode_id_are_honoured(serve: Any, raw: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws, raw(url) as other:
            begun = await ws.reset(index=2, seed=7, episode_id="mine/1 ü")
            assert begun["data"]["metadata"]["prompt"] == "Day Monday, seed 7."
            assert (await ws.ask({"type": "state"}))["data"]["episode_id"] == "mine/1 ü"
            clash = await other.reset(episode_id="mine/1 ü")
            assert clash["data"]["code"] == "EXECUTION_ERROR"
            assert "mine/1 ü" in clash["data"]["message"]
            again = await ws.reset(index=0, episode_id="mine/1 ü")
            assert again["type"] == "observation"
            await ws.reset(index=0)
            assert (await other.reset(episode_id="mine/1 ü"))["type"] == "observation"

    asyncio.run(main(serve()))


def test_without_a_task_the_first_one_is_played(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            for message in ({"type": "reset"}, {"type": "reset", "data": {"seed": None, "episode_id": None}}):
                task = (await ws.ask(message))["data"]["metadata"]["task"]
                assert (task["split"], task["index"]) == ("all", 0)

    asyncio.run(main(serve()))


def test_messages_and_replies_over_the_limit(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as other:
            await other.reset()
            async with raw(url) as ws:
                await ws.reset()
                big = await ws.call("big", size=30_000)
                error = big["data"]["observation"]["error"]
                assert error["error_type"] == "execution_error"
                assert "20000 are allowed" in error["message"]
                assert (await ws.call("big", size=9_000))["data"]["observation"]["error"] is None
                error = (await ws.call("nan"))["data"]["observation"]["error"]
                assert error["error_type"] == "execution_error"
                assert "no JSON" in error["message"]
                await ws.send({"type": "state", "x": "y" * 30_000})
                assert await ws.closed() == 1009
            assert (await other.call("add", a=1, b=1))["type"] == "observation"

    asyncio.run(main(serve(max_message_bytes=20_000)))


@pytest.mark.parametrize("text", ["\ud800", "☃" * 500, "\x00", "<|tool|>"])
def test_any_text_comes_back(serve: Any, raw: Any, text: str) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            answer = await ws.call("slow", seconds=0, name=text)
            assert answer["data"]["observation"]["result"]["data"] == f"slept {text}"

    asyncio.run(main(serve()))
