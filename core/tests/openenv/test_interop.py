"""The real clients of openenv 0.10.0 against our server."""

from __future__ import annotations

import asyncio
import warnings
from importlib import import_module
from typing import Any

import pytest

pytestmark = [
    pytest.mark.interop,
    # Warnings of the foreign packages are theirs.
    pytest.mark.filterwarnings("default"),
]

HEADERS = {"Authorization": "Bearer s3cret"}


@pytest.fixture(scope="module")
def openenv() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("openenv", reason="openenv is in the dependency group interop: uv sync --group interop")

        class Openenv:
            generic = import_module("openenv.core.generic_client").GenericEnvClient
            tools = import_module("openenv.core.mcp_client").MCPToolClient
            types = import_module("openenv.core.env_server.mcp_types")
            validation = import_module("openenv.cli._validation")

    return Openenv


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": tool, "arguments": arguments}


def test_generic_client_in_a_loop(openenv: Any, serve: Any) -> None:
    async def main(url: str) -> None:
        async with openenv.generic(base_url=url, headers=HEADERS) as env:
            begun = await env.reset(split="single", index=1, episode_id="mine")
            assert (begun.done, begun.reward) == (False, None)
            assert begun.observation["metadata"]["prompt"] == "First."
            assert begun.metadata["prompt"] == "First."
            listed = await env.step({"type": "list_tools"})
            assert [tool["name"] for tool in listed.observation["tools"]][-1] == "end_turn"
            assert (await env.step(call("add", a=2, b=3))).observation["result"]["data"] == "5"
            state = await env.state()
            assert (state["episode_id"], state["step_count"]) == ("mine", 1)
            turn = await env.step(call("end_turn", response="one"))
            assert (turn.done, turn.observation["result"]["data"]["prompt"]) == (False, "Second.")
            over = await env.step(call("end_turn", response="done"))
            assert (over.done, over.reward, over.metadata["scores"]) == (True, 1.0, {"grade": 1.0})
            with pytest.raises(RuntimeError, match="no index 99"):
                await env.reset(split="single", index=99)
            with pytest.raises(RuntimeError, match="no episode is open"):
                await env.step(call("add", a=1, b=1))

    asyncio.run(main(serve(token="s3cret")))


def test_generic_client_without_a_loop(openenv: Any, serve: Any) -> None:
    with openenv.generic(base_url=serve()).sync() as env:
        begun = env.reset(split="single", index=2, seed=11)
        assert begun.metadata["prompt"] == "Day Monday, seed 11."
        assert env.step(call("add", a=20, b=3)).observation["result"]["data"] == "23"
        over = env.step(call("end_turn", response="done"))
        assert (over.done, over.reward) == (True, 1.0)


def test_a_failure_and_a_full_server_for_the_generic_client(openenv: Any, serve: Any) -> None:
    async def main(url: str) -> None:
        async with openenv.generic(base_url=url) as env:
            await env.reset()
            dead = await env.step(call("die"))
            assert (dead.done, dead.reward, dead.metadata["status"]) == (True, None, "error")
            async with openenv.generic(base_url=url) as other:
                with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
                    await other.reset()
            with pytest.raises(RuntimeError, match="MCP session"):
                async with openenv.tools(base_url=url):
                    pass

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_tool_client(openenv: Any, serve: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with openenv.tools(base_url=url, headers=HEADERS) as env:
            begun = await env.reset(split="single", index=1)
            assert begun.observation.metadata["prompt"] == "First."
            tools = await env.list_tools()
            assert tools[0].name == "add"
            assert tools[0].input_schema == {"type": "object"}
            assert await env.call_tool("add", a=4, b=5) == "9"
            for wrong in ("refuse", "nothing"):
                with pytest.raises(RuntimeError, match="failed"):
                    await env.call_tool(wrong)
            stepped = await env.step(openenv.types.CallToolAction(tool_name="add", arguments={"a": 1, "b": 1}))
            assert stepped.observation.result["data"] == "2"
            wrong = await env.step(openenv.types.CallToolAction(tool_name="nothing", arguments={}))
            assert wrong.observation.error.error_type == openenv.types.ToolErrorType.TOOL_NOT_FOUND
            assert (await env.state()).step_count == 3
            second = await env.call_tool("end_turn", response="one")
            assert second["prompt"] == "Second."
            action = openenv.types.CallToolAction(tool_name="end_turn", arguments={"response": "done"})
            over = await env.step(action)
            assert (over.done, over.reward) == (True, 1.0)
        await until(lambda: world.left() == 0)

    asyncio.run(main(serve(token="s3cret", max_concurrent_envs=1)))


def test_tool_client_without_a_loop(openenv: Any, serve: Any) -> None:
    with openenv.tools(base_url=serve()).sync() as env:
        assert [tool.name for tool in env.list_tools()][-1] == "end_turn"  # also before the reset
        env.reset(split="single", index=0)
        assert env.call_tool("add", a=4, b=5) == "9"
        assert env.call_tool("end_turn", response="done")["reward"] == 1.0


def test_many_clients_of_one_process(openenv: Any, serve: Any, until: Any, world: Any) -> None:
    async def one(url: str, number: int) -> float | None:
        async with openenv.generic(base_url=url) as env:
            await env.reset(split="eval", index=number % 3)
            got = await env.step(call("add", a=number, b=1))
            assert got.observation["result"]["data"] == str(number + 1)
            reward: float | None = (await env.step(call("end_turn", response="done"))).reward
            return reward

    async def main(url: str) -> None:
        assert await asyncio.gather(*(one(url, number) for number in range(16))) == [1.0] * 16
        await until(lambda: world.left() == 0)

    asyncio.run(main(serve(max_concurrent_envs=16)))


def test_the_validator_passes(openenv: Any, serve: Any) -> None:
    report = openenv.validation.validate_running_environment(serve())
    assert report["passed"], report
