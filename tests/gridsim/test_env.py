"""The env as a real process, through the client that the engine uses, and graded by the bundle's verifier."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.errors import EnvRequestError
from agent_env.plugin.sandbox import Endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from pathlib import Path

    from agent_env.plugin.tools import ToolResult

LOAD = "urn:gridsim:load-day/v1"


@contextmanager
def server_process(bundle: Path, folder: Path, **variables: str) -> Generator[None]:
    """``server.py`` in a process of its own, started in the env's folder as its ``agentenv.toml`` says."""
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "server.py"], cwd=bundle / "envs" / "gridsim", env=environment, stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)
    assert process.returncode == 0, (folder / "log").read_text()


@asynccontextmanager
async def env_client(bundle: Path, folder: Path) -> AsyncGenerator[EnvClient]:
    path = folder / "env.sock"
    with server_process(bundle, folder, AGENTENV_UDS=str(path)):
        deadline = time.monotonic() + 20
        while not path.exists():
            assert time.monotonic() < deadline, (folder / "log").read_text()
            await asyncio.sleep(0.02)
        client = EnvClient(Endpoint("http://gridsim", uds=str(path)), name="gridsim")
        await client.open()
        try:
            yield client
        finally:
            await client.close()


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


async def graded(client: EnvClient) -> Any:
    (part,) = await client.data_get()
    return part["data"]


def told(result: ToolResult) -> Any:
    assert not result.is_error, result.text
    return result.structured


def refused(result: ToolResult) -> str:
    assert result.is_error, result.text
    return result.text


@pytest.fixture
def row(eval_rows: list[dict[str, Any]]) -> dict[str, Any]:
    return eval_rows[0]


def test_a_day_from_loading_to_grading(bundle_path: Path, tmp_path: Path, row: dict[str, Any], market: Any) -> None:
    day = market.Day.from_fields(row["day"])
    best = market.best_plan(day)

    async def scene() -> None:
        async with env_client(bundle_path, tmp_path) as client:
            assert [spec.name for spec in await client.list_tools()] == [
                "read_day",
                "check_schedule",
                "submit_schedule",
            ]
            for name in ("read_day", "check_schedule", "submit_schedule"):
                arguments = {} if name == "read_day" else {"plan": [0] * 24}
                assert refused(await client.call_tool(name, arguments)) == "no day is loaded"
            assert await graded(client) == {"loaded": False, "submitted": False}

            await client.call_extension(LOAD, {"day": row["day"]})
            assert told(await client.call_tool("read_day", {})) == row["day"] | {"checks_left": 5}
            assert (await graded(client))["score"] == 0.0
            for left in range(4, -1, -1):
                checked = told(await client.call_tool("check_schedule", {"plan": best}))
                assert (checked["feasible"], checked["checks_left"]) == (True, left)
                assert checked["charge"] == list(market.play(day, best).soc)
            assert "all 5 checks" in refused(await client.call_tool("check_schedule", {"plan": best}))

            submitted = told(await client.call_tool("submit_schedule", {"plan": best}))
            profit = market.dollars(day, market.best_worth(day))
            assert submitted == {"final": True, "feasible": True, "profit": profit}
            for name in ("read_day", "check_schedule", "submit_schedule"):
                arguments = {} if name == "read_day" else {"plan": [0] * 24}
                assert "the day is over" in refused(await client.call_tool(name, arguments))
            data = await graded(client)
            assert (data["score"], data["plan"], data["profit"]) == (1.0, best, data["best_profit"])

            await client.data_reset()
            assert await graded(client) == {"loaded": False, "submitted": False}
            await client.data_add([{"kind": "data", "data": {"day": row["day"]}}])
            told(await client.call_tool("submit_schedule", {"plan": [0] * 24}))
            assert (await graded(client))["score"] == 0.2

    asyncio.run(scene())


def test_mistakes_of_a_model(bundle_path: Path, tmp_path: Path, row: dict[str, Any]) -> None:
    async def scene() -> None:
        async with env_client(bundle_path, tmp_path) as client:
            await client.call_extension(LOAD, {"day": row["day"]})
            wrong: list[dict[str, Any]] = [
                {},
                {"plan": None},
                {"plan": "idle"},
                {"plan": [0] * 23},
                {"plan": [0] * 25},
                {"plan": ["a"] * 24},
                {"plan": [0.5] * 24},
                {"plan": [True] * 24},
                {"plan": [[0]] * 24},
                {"plan": {"0": 1}},
                {"plan": [0] * 24, "hour": 3},
            ]
            for arguments in wrong:
                for name in ("check_schedule", "submit_schedule"):
                    assert len(refused(await client.call_tool(name, arguments))) > 10
            data = await graded(client)
            assert (data["submitted"], data["checks_used"]) == (False, 0)

            too_much = [0] * 17 + [99] + [0] * 6
            submitted = told(await client.call_tool("submit_schedule", {"plan": too_much}))
            assert not submitted["feasible"]
            assert "hour 17 sells 99 units" in submitted["reason"]
            assert "the day is over" in refused(await client.call_tool("submit_schedule", {"plan": [0] * 24}))
            data = await graded(client)
            assert (data["submitted"], data["feasible"], data["score"]) == (True, False, 0.0)

    asyncio.run(scene())


def test_only_one_of_several_submissions_at_once_counts(bundle_path: Path, tmp_path: Path, row: dict[str, Any]) -> None:
    async def scene() -> None:
        async with env_client(bundle_path, tmp_path) as client:
            await client.call_extension(LOAD, {"day": row["day"]})
            calls = [client.call_tool("submit_schedule", {"plan": [0] * 24}) for _ in range(8)]
            answers = await asyncio.gather(*calls)
            assert sorted(answer.is_error for answer in answers) == [False] + [True] * 7

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prices": []}, "prices must be a list of 24"),
        ({"s_end_min": 99}, "s_end_min"),
        ({"prices": [10.0] * 24, "s0": 0, "s_end_min": 0}, "earns nothing"),
    ],
)
def test_a_day_that_is_none_is_refused_when_it_is_loaded(
    bundle_path: Path, tmp_path: Path, row: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    async def scene() -> None:
        async with env_client(bundle_path, tmp_path) as client:
            with pytest.raises(EnvRequestError, match=why) as caught:
                await client.call_extension(LOAD, {"day": row["day"] | change})
            assert (caught.value.code, caught.value.applied) == ("invalid_day", "no")
            assert not (await graded(client))["loaded"]

    asyncio.run(scene())


def test_the_verifier_reads_the_env_over_tcp(
    bundle_path: Path, tmp_path: Path, row: dict[str, Any], verifier: Any, new_port: Callable[[], int]
) -> None:
    port = new_port()

    async def scene() -> None:
        url = f"http://127.0.0.1:{port}"
        client = EnvClient(Endpoint(url), name="gridsim")
        await client.open()
        try:
            with pytest.raises(RuntimeError, match="no day loaded"):
                await verifier.verify(f"{url}/mcp")
            await client.call_extension(LOAD, {"day": row["day"]})
            assert (await verifier.verify(f"{url}/mcp"))[0]["score"] == 0.0
            told(await client.call_tool("submit_schedule", {"plan": [0] * 24}))
            assert (await verifier.verify(f"{url}/mcp"))[0]["score"] == 0.2
        finally:
            await client.close()

    with server_process(bundle_path, tmp_path, MCP_HOST="127.0.0.1", MCP_PORT=str(port)):
        wait_for_port(port)
        asyncio.run(scene())
