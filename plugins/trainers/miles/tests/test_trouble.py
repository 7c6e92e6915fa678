"""Servers that are full, closed, gone or come back; tokens; aborts and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.testing.standin import Fault, StandInModel, call, say
from agent_env.training.miles import agent

if TYPE_CHECKING:
    from collections.abc import Callable

WORD = say("xyzzy")


def always(reply: Any) -> Callable[..., Any]:
    def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return reply

    return policy


async def run(model: StandInModel, row: dict[str, Any], **own: Any) -> dict[str, Any]:
    metadata = copy.deepcopy(row["metadata"])
    metadata["agentenv"].update(own)
    return await agent.run(
        base_url=model.open_session(), prompt=row["messages"], request_kwargs={"temperature": 1.0}, metadata=metadata
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  what others count
            await asyncio.sleep(0.01)


def test_a_full_server_is_a_failure_when_the_clock_runs_out(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with (
            serve(max_concurrent_envs=1) as served,
            StandInModel(always(WORD), faults={0: Fault.slow(30)}) as model,
        ):
            row = (await rows(served.url))["eval"][0]
            first = asyncio.create_task(run(model, row))
            await until(lambda: any(session.chats for session in model.sessions.values()))
            second = await run(model, row, reset_timeout=0.5)
            assert second["agentenv_failure"].startswith("server: ")
            assert list(model.sessions.values())[-1].chats == 0
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await served.quiet()

    asyncio.run(main())


def test_a_server_that_comes_up_in_time_is_waited_for(serve: Any, rows: Any, new_port: Callable[[], int]) -> None:
    async def main() -> None:
        port = new_port()
        async with StandInModel(always(WORD)) as model:
            async with serve(port=port) as served:
                row = (await rows(served.url))["eval"][0]
            rollout = asyncio.create_task(run(model, row))
            await asyncio.sleep(0.3)
            async with serve(port=port):
                result = await rollout
            assert (result["reward"], "agentenv_failure" in result) == (1.0, False)
            assert result["agent_metrics"]["reset_retries"] >= 1

    asyncio.run(main())


def test_a_server_that_restarts_during_the_reset_is_waited_for(
    serve: Any, rows: Any, new_port: Callable[[], int]
) -> None:
    async def main() -> None:
        port = new_port()
        deploys = 0

        async def deploy() -> None:
            nonlocal deploys
            deploys += 1
            await asyncio.sleep(30)

        async with StandInModel(always(WORD)) as model:
            async with serve(port=port) as served:
                row = (await rows(served.url))["eval"][0]
            async with serve(deploy, port=port, shutdown_deadline=1):
                rollout = asyncio.create_task(run(model, row))
                await until(lambda: deploys > 0)
            async with serve(port=port):
                result = await rollout
            assert (result["reward"], "agentenv_failure" in result) == (1.0, False)

    asyncio.run(main())


def test_a_server_that_restarts_after_the_first_chat_is_a_failure(
    serve: Any, rows: Any, new_port: Callable[[], int]
) -> None:
    async def main() -> None:
        port = new_port()
        restarts = threading.Event()

        def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
            assert not any(message["role"] == "tool" for message in messages) or restarts.wait(15)
            return call("look")

        async with StandInModel(policy) as model:
            async with serve(port=port, shutdown_deadline=1) as served:
                row = (await rows(served.url))["eval"][0]
                rollout = asyncio.create_task(run(model, row))
                await until(lambda: any(session.chats == 2 for session in model.sessions.values()))
            restarts.set()
            async with serve(port=port):
                result = await rollout
            assert result["agentenv_failure"].startswith("server: ")
            assert list(model.sessions.values())[-1].chats == 2

    asyncio.run(main())


def test_tokens(serve: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setenv("ROOM_TOKEN", "s3cret-word")
        async with serve(token="s3cret-word") as served, StandInModel(always(WORD)) as model:
            row = (await rows(served.url, token_var="ROOM_TOKEN"))["eval"][0]
            assert "s3cret" not in json.dumps(row)
            assert row["metadata"]["agentenv"]["token_var"] == "ROOM_TOKEN"
            assert (await run(model, row))["reward"] == 1.0
            monkeypatch.setenv("ROOM_TOKEN", "wrong-s3cret")
            refused = await run(model, row)
            assert refused["agentenv_failure"].startswith("server: ")
            assert "token" in refused["agentenv_failure"]
            monkeypatch.delenv("ROOM_TOKEN")
            missing = await run(model, row)
            assert "ROOM_TOKEN" in missing["agentenv_failure"]
            assert "s3cret" not in json.dumps([refused, missing])

    asyncio.run(main())


def test_abort_ends_rollouts_with_flagged_results(serve: Any, rows: Any) -> None:
    async def main() -> None:
        faults = {0: Fault.slow(30)}
        async with serve() as served, StandInModel(always(WORD), faults=faults) as model:
            row = (await rows(served.url))["eval"][0]
            rollouts = [asyncio.create_task(run(model, row)) for _ in range(3)]
            await until(lambda: sum(session.chats for session in model.sessions.values()) == 3)
            await agent.abort(object())
            results = await asyncio.gather(*rollouts)
            assert all(result["agentenv_failure"].startswith("aborted: ") for result in results)
            await served.quiet()
            await agent.abort(None)

    asyncio.run(main())


def test_abort_also_ends_rollouts_that_wait_for_an_episode(serve: Any, rows: Any, new_port: Callable[[], int]) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD)) as model:
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["agentenv"]["url"] = f"http://127.0.0.1:{new_port()}"
            rollout = asyncio.create_task(run(model, row))
            await asyncio.sleep(0.1)
            await agent.abort(object())
            assert (await rollout)["agentenv_failure"].startswith("aborted: ")

    asyncio.run(main())


def test_a_cancellation_from_outside_is_raised_after_teardown(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(call("sleep", seconds=60))) as model:
            row = (await rows(served.url, tool_timeout=60))["eval"][0]
            rollout = asyncio.create_task(run(model, row))
            await until(lambda: any(session.chats for session in model.sessions.values()))
            await asyncio.sleep(0.1)
            rollout.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rollout
            await served.quiet()

    asyncio.run(main())


def test_a_timeout_of_the_caller_works(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(call("sleep", seconds=60))) as model:
            row = (await rows(served.url, tool_timeout=60))["eval"][0]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run(model, row), 0.5)
            await served.quiet()

    asyncio.run(main())


def test_the_wall_clock_ends_what_nothing_else_ends(serve: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD), faults={0: Fault.slow(30)}) as model:
            row = (await rows(served.url))["eval"][0]
            monkeypatch.setattr("agent_env.rollout.loop.Settings.limit", 0.5)
            result = await run(model, row)
            assert result["agentenv_failure"].startswith("aborted: ")
            assert "wall clock" in result["agentenv_failure"]
            await served.quiet()

    asyncio.run(main())


def test_a_chat_endpoint_that_is_gone_is_a_failure_of_the_model(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD)) as model:
            row = (await rows(served.url))["eval"][0]
            base_url = model.open_session()
            model.session(base_url).deleted = True
            result = await agent.run(base_url, row["messages"], {}, row["metadata"])
            assert result["agentenv_failure"].startswith("model: ")
            assert "404" in result["agentenv_failure"]
            await served.quiet()

    asyncio.run(main())


@pytest.mark.parametrize("session", ["v1", "v2"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_reply_that_was_recorded_but_lost_is_not_asked_for_again(
    serve: Any, rows: Any, session: str, place: int
) -> None:
    async def main() -> None:
        asked = 0

        def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
            nonlocal asked
            asked += 1
            return call("look") if len(messages) == 2 else WORD

        faults = {place: Fault.dropped("after")}
        async with serve() as served, StandInModel(policy, session, faults=faults) as model:
            row = (await rows(served.url))["eval"][0]
            result = await run(model, row)
            assert (result["reward"], asked) == (1.0, 2)
            base_url = f"{model.url}/sessions/{list(model.sessions)[-1]}"
            (sample,) = model.samples(base_url)
            assert sample.trained_tokens == model.session(base_url).generated
            assert model.session(base_url).history.rollbacks == 0

    asyncio.run(main())


def test_rows_of_another_bundle_are_noticed(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD)) as model:
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["tools"][0]["function"]["name"] = "peek"
            result = await run(model, row)
            assert result["agentenv_failure"].startswith("env: ")
            assert "die, end_turn, open, peek, sleep" in result["agentenv_failure"]
            assert "die, end_turn, look, open, sleep" in result["agentenv_failure"]
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["tools"][1]["function"]["parameters"] = {"type": "object", "properties": {"gate": {}}}
            assert "parameters of open differ" in (await run(model, row))["agentenv_failure"]
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["tools"][1]["function"]["description"] = "In my own words."
            assert (await run(model, row))["reward"] == 1.0

    asyncio.run(main())


def test_an_index_that_does_not_exist_is_a_failure(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD)) as model:
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["index"] = 99
            assert (await run(model, row))["agentenv_failure"].startswith("server: ")
            row["metadata"].update(index=0, split="nowhere")
            assert "nowhere" in (await run(model, row))["agentenv_failure"]

    asyncio.run(main())


def test_rollouts_in_two_loops_at_once(serve: Any, rows: Any) -> None:
    """The trainer's loop may not be the only one of its process."""

    async def other(url: str, row: dict[str, Any]) -> list[dict[str, Any]]:
        async with StandInModel(always(WORD)) as model:
            return list(await asyncio.gather(*(run(model, row) for _ in range(4))))

    async def main() -> None:
        async with serve() as served:
            row = (await rows(served.url))["eval"][0]
            inside, outside = await asyncio.gather(
                other(served.url, row), asyncio.to_thread(lambda: asyncio.run(other(served.url, row)))
            )
            assert [result["reward"] for result in inside + outside] == [1.0] * 8

    asyncio.run(main())


def test_nothing_is_left_in_the_loop(serve: Any, rows: Any) -> None:
    async def main() -> None:
        async with serve() as served, StandInModel(always(WORD), faults={0: Fault.slow(30)}) as model:
            row = (await rows(served.url))["eval"][0]
            before = len(asyncio.all_tasks())
            rollout = asyncio.create_task(run(model, row))
            await until(lambda: any(session.chats for session in model.sessions.values()))
            await agent.abort(object())
            await rollout
            await served.quiet()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while len(asyncio.all_tasks()) > before + 1:  # noqa: ASYNC110  the stand-in still sleeps for the chat
                        await asyncio.sleep(0.05)
            assert len(asyncio.all_tasks()) <= before + 1

    asyncio.run(main())
