"""`agent.run` against the stand-in and the real server with in-process envs."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SandboxUnavailable
from agent_env.testing.standin import StandInModel, call, calls, say
from agent_env.training.miles import agent

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "skip_special_tokens": False, "no_stop_trim": True}
KEYS = {
    "reward",
    "agentenv_scores",
    "agentenv_tool_calls",
    "agentenv_invalid_calls",
    "agentenv_truncated",
    "agent_metrics",
}


def by_turn(*replies: Any) -> Callable[..., Any]:
    """A policy that chooses its reply by how often it replied."""

    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return replies[min(sum(message["role"] == "assistant" for message in messages), len(replies) - 1)]

    return reply


FIND = by_turn(call("look"), calls(("open", {"door": 1}), ("open", {"door": 9})), say("It is xyzzy."))


async def run(model: StandInModel, row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    metadata = {**copy.deepcopy(row["metadata"]), "session_server_id": "127.0.0.1:1", **changes}
    return await agent.run(
        base_url=model.open_session(), prompt=row["messages"], request_kwargs=dict(SAMPLING), metadata=metadata
    )


def last(model: StandInModel) -> str:
    return f"{model.url}/sessions/{list(model.sessions)[-1]}"


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_a_scored_rollout(serve: Any, rows: Any, session: str) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(FIND, session) as model:
            row = (await rows(served.url))["eval"][0]
            before = copy.deepcopy(row)
            result = await run(model, row)
            assert row == before
            assert set(result) == KEYS
            assert (result["reward"], result["agentenv_scores"]) == (1.0, {"word": 1.0})
            assert (result["agentenv_tool_calls"], result["agentenv_invalid_calls"]) == (3, 0)
            assert result["agentenv_truncated"] is False
            metrics = result["agent_metrics"]
            assert metrics["total_tool_time"] > 0
            assert metrics["end_reason"] == "no_call"
            json.dumps(result, allow_nan=False)
            (sample,) = model.samples(last(model))
            assert sample.trained_tokens == model.session(last(model)).generated
            await served.quiet()

    asyncio.run(main())


def test_many_rollouts_at_once_share_a_small_server(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve(max_concurrent_envs=3) as served, StandInModel(FIND) as model:
            row = (await rows(served.url))["eval"][0]
            results = await asyncio.gather(*(run(model, row) for _ in range(40)))
            assert [result["reward"] for result in results] == [1.0] * 40
            await served.quiet()

    asyncio.run(main())


def test_a_task_of_two_turns(serve: Any, rows: Any) -> None:
    async def main() -> None:
        policy = by_turn(call("open", door=1), call("end_turn", response="found"), say("xyzzy"))
        async with serve() as served, StandInModel(policy) as model:
            row = next(row for row in (await rows(served.url))["train"] if "recall" in row["metadata"]["task_id"])
            result = await run(model, row)
            assert (result["reward"], result["agentenv_tool_calls"]) == (1.0, 1)
            messages = model.session(last(model)).requests[-1]["messages"]
            assert messages[-1]["role"] == "tool"
            assert "Say it again." in messages[-1]["content"]

    asyncio.run(main())


def test_the_prompt_of_the_row_is_sent_not_the_resets(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(FIND) as model:
            row = (await rows(served.url))["eval"][0]
            row["messages"] = [{"role": "user", "content": "My own words."}]
            await run(model, row)
            first = model.session(last(model)).requests[0]
            assert first["messages"] == row["messages"]
            assert first["tools"] == row["metadata"]["tools"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("policy", "settings", "kind"),
    [
        (call("die"), {}, "env"),
        (call("sleep", seconds=60), {"tool_timeout": 0.3}, "tool_timeout"),
    ],
)
def test_failures_of_the_env_are_flagged(serve: Any, rows: Any, policy: Any, settings: Any, kind: str) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(by_turn(policy)) as model:
            row = (await rows(served.url, **settings))["eval"][0]
            result = await run(model, row)
            assert set(result) == KEYS | {"agentenv_failure"}
            assert result["agentenv_failure"].startswith(f"{kind}: ")
            assert (result["reward"], result["agentenv_scores"]) == (0.0, {})
            assert "retryable" in result["agent_metrics"]
            await served.quiet()

    asyncio.run(main())


def test_a_passing_deploy_failure_is_retried_before_the_first_chat(serve: Any, rows: Any) -> None:
    async def main() -> None:
        fails = 0

        def deploy() -> None:
            nonlocal fails
            if fails:
                fails -= 1
                raise SandboxUnavailable("the provider has a hiccup")

        async with serve(deploy) as served, StandInModel(FIND) as model:
            row = (await rows(served.url))["eval"][0]
            fails = 2
            result = await run(model, row)
            assert (result["reward"], result["agent_metrics"]["reset_retries"]) == (1.0, 2)

    asyncio.run(main())
