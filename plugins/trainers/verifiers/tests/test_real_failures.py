"""Failures in the real verifiers are typed errors without a reward; ends that are the model's own are scored."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.testing.standin import StandInModel, call, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

Messages = list[dict[str, Any]]


def find(messages: Messages, tools: Messages) -> dict[str, Any]:
    return say("xyzzy") if any(message["role"] == "tool" for message in messages) else call("look")


def wander(messages: Messages, tools: Messages) -> dict[str, Any]:
    return call("look")


def sleep(messages: Messages, tools: Messages) -> dict[str, Any]:
    time.sleep(3)  # in a thread of the stand-in model's
    return call("look")


def die(messages: Messages, tools: Messages) -> dict[str, Any]:
    return call("die")


def fail(messages: Messages, tools: Messages) -> dict[str, Any]:
    raise RuntimeError("the engine is out of order")


@pytest.mark.timeout(300)
def test_failures_are_errors_and_the_models_ends_are_scores(
    run_real: Callable[..., Awaitable[list[dict[str, Any]]]], tmp_path: Path
) -> None:
    token = secrets.token_hex(16)

    async def main() -> None:
        async with (
            serve_in_process(small_bundle(tmp_path / "small"), token=token) as served,
            StandInModel(find) as finder,
            StandInModel(wander) as wanderer,
            StandInModel(die) as killer,
            StandInModel(fail) as broken,
            StandInModel(sleep) as sleeper,
        ):
            taskset = {"url": served.url, "token_var": "ROOM_TOKEN", "tool_timeout": 5, "reset_timeout": 10}
            base = {"taskset": taskset, "tasks": 1, "samples": 2}
            null = {"harness": {"id": "null"}}
            orders = {
                "found": {**base, "model": finder.url},
                "max_turns": {**base, "model": wanderer.url},
                "limit": {**base, "model": wanderer.url, "agent": {"max_turns": 2}},
                "dead": {**base, "model": killer.url},
                "dead, served": {**base, "model": killer.url, "served": True},
                "dead, null": {**base, "model": killer.url, "agent": null, "samples": 1},
                "timeout": {**base, "model": sleeper.url, "agent": {"timeout": {"rollout": 1}}},
                "cancelled": {**base, "model": sleeper.url, "cancel_after": 1},
                "cancelled, served": {**base, "model": sleeper.url, "cancel_after": 1, "served": True},
                "cancelled, null": {**base, "model": sleeper.url, "cancel_after": 4, "agent": null},
                "no model": {**base, "model": broken.url},
                "no model, null": {**base, "model": broken.url, "agent": null, "samples": 1},
            }
            done = dict(zip(orders, await run_real(*orders.values(), ROOM_TOKEN=token), strict=True))
            await served.quiet()
        for name, result in done.items():
            assert (result["open"], result["servers"]) == (0, 0), name
            assert token not in str(result), name
        errors = {name: kinds(result) for name, result in done.items()}
        assert errors["found"] == errors["max_turns"] == errors["limit"] == set()
        assert rewards(done["found"]) == [1.0, 1.0]
        assert rewards(done["max_turns"]) == [0.0, 0.0]
        assert {(e["stop"], e["truncated"], e["turns"]) for e in done["max_turns"]["episodes"]} == {
            ("max_turns", True, 4)
        }
        assert {(e["stop"], e["truncated"], e["turns"]) for e in done["limit"]["episodes"]} == {("max_turns", True, 2)}
        # The agent's own timeout is its own end: what it left is scored.
        assert errors["timeout"] == set()
        assert rewards(done["timeout"]) == [0.0, 0.0]
        assert {e["stop"] for e in done["timeout"]["episodes"]} == {"agent_timeout"}
        for name in ("cancelled", "cancelled, served", "cancelled, null"):
            assert done[name]["episodes"] == [], name
        for name in ("dead", "dead, served", "dead, null"):
            assert errors[name] == {"ToolsetError"}, done[name]["episodes"][0]["errors"]
            assert "env: " in done[name]["episodes"][0]["errors"][0][1]
        assert errors["no model"] == errors["no model, null"] == {"ProviderError"}
        for name in ("dead", "dead, served", "dead, null", "no model", "no model, null"):
            for episode in done[name]["episodes"]:
                assert not episode["ok"]
                assert all(value is None for value in episode["rewards"].values())

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_server_that_is_gone_is_a_sandbox_error(
    run_real: Callable[..., Awaitable[list[dict[str, Any]]]], tmp_path: Path
) -> None:
    from agent_env.plugin.trainer import RowSettings
    from agent_env.training.verifiers.adapter import VerifiersAdapter

    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            await VerifiersAdapter().write_rows(served.url, tmp_path, RowSettings(reset_timeout=1))
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            rows = {"rows": str(tmp_path / "train.jsonl")}
            orders = {"taskset": rows, "tasks": 2, "samples": 1, "model": "http://127.0.0.1:9"}
            retries = {"rules": [{"message": r"\[retryable\]", "max_retries": 1}]}
            result, again = await run_real(orders, {**orders, "retries": retries})
        for episode in result["episodes"]:
            assert not episode["ok"]
            ((kind, message),) = episode["errors"]
            assert kind == "SandboxError"
            assert message.startswith("server: ")
            assert message.endswith("[retryable]")
            assert episode["rewards"] == {}
        assert result["open"] == again["open"] == 0
        assert [len(episode["errors"]) for episode in again["episodes"]] == [2, 2]

    asyncio.run(main())


def kinds(result: dict[str, Any]) -> set[str]:
    return {kind for episode in result["episodes"] for kind, _ in episode["errors"]}


def rewards(result: dict[str, Any]) -> list[float]:
    return [episode["reward"] for episode in result["episodes"]]
