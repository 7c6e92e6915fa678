"""Evaluations played against a real server and a real endpoint."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.evaluation.endpoint import Endpoint
from agent_env.evaluation.store import EPISODES_FILE, RUN_FILE, RunStore, read_run
from agent_env.evaluation.summary import Prices, summarize
from agent_env.testing.small import WORD, ask, contains, serve_in_process, write_bundle
from agent_env.testing.standin import call, calls, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "sk-secret-0123456789"


def find(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Looks, and says the word."""
    del tools
    return say(WORD) if any(message["role"] == "tool" for message in messages) else call("look")


def nonsense(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Calls what is no tool with what are no arguments, then babbles."""
    del tools
    if any(message["role"] == "tool" for message in messages):
        return say("\x00\u2028 </script> blah")
    return calls(("fly", {}), ("look", "{not json"), ("look", "[1]"), ("", {}))


def half_dies(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Ends the env in room 1."""
    return call("die") if "room find-1" in messages[0]["content"] else find(messages, tools)


Eval = tuple["Callable[..., Any]", "Callable[..., Any]", "Path"]


@pytest.fixture
def world(chat: Callable[..., Any], play: Callable[..., Any], bundle: Path) -> Eval:
    return chat, play, bundle


def run(world: Eval, reply: Any, *, server: dict[str, Any] | None = None, **options: Any) -> tuple[Any, Any]:
    """Serve, evaluate; returns the run and the endpoint."""
    chat, play, bundle = world
    endpoint = reply if hasattr(reply, "bodies") else chat(reply, **(server or {}))

    async def main() -> Any:
        async with serve_in_process(bundle) as served, asyncio.timeout(60):
            done = await play(served.url, endpoint, **options)
            await served.quiet()
            return done

    return asyncio.run(main()), endpoint


def lines(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.folder / EPISODES_FILE).read_text().splitlines()]


def test_every_task_is_played_k_times(world: Eval) -> None:
    done, endpoint = run(world, find, k=2, sampling={"temperature": 0.3, "top_p": 0.9}, seed=40)
    assert [(one.task, one.repeat) for one in done.records] == [(f"find-{n}", r) for n in range(3) for r in range(2)]
    summary = summarize(done.settings, done.records, prices=Prices(1.0, 10.0))
    assert (summary["mean_reward"], summary["stderr"], summary["complete"]) == (1.0, 0.0, True)
    assert {size: one["mean"] for size, one in summary["pass"].items()} == {"1": 1.0, "2": 1.0}
    assert (summary["tokens"]["prompt"], summary["tokens"]["completion"]) == (1200, 120)
    assert summary["cost"] == pytest.approx(0.0012 + 0.0012)
    assert (summary["tool_calls"], summary["invalid_calls"], summary["turns"]) == (6, 0, 12)
    assert done.stopped is None
    for body in endpoint.bodies:
        assert (body["model"], body["temperature"], body["top_p"]) == ("m", 0.3, 0.9)
        assert {tool["function"]["name"] for tool in body["tools"]} == {"look", "die", "end_turn"}
    assert sorted(body["seed"] for body in endpoint.bodies) == [40] * 6 + [41] * 6


def test_a_line_holds_the_whole_conversation(world: Eval) -> None:
    done, _ = run(world, find, limit=1)
    (line,) = lines(done)
    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert line["messages"][0]["content"] == "Which word is in room find-0?"
    assert WORD in line["messages"][2]["content"]
    assert (line["reward"], line["scores"], line["failure"], line["end_reason"]) == (
        1.0,
        {"word": 1.0},
        None,
        "no_call",
    )


def test_a_model_that_answers_nonsense_has_a_score_of_0(world: Eval) -> None:
    done, _ = run(world, nonsense)
    summary = summarize(done.settings, done.records)
    assert (summary["mean_reward"], summary["failed"]) == (0.0, 0)
    assert (summary["invalid_calls"], summary["unknown_calls"]) == (6, 6)


def test_failures_are_in_no_score_and_played_again(world: Eval) -> None:
    done, _ = run(world, half_dies, k=2, retries=1)
    summary = summarize(done.settings, done.records)
    assert (summary["scored"], summary["failed"], summary["failures"]) == (4, 2, {"env": 2})
    assert summary["mean_reward"] == 1.0
    assert [one["mean_reward"] for one in summary["tasks"]] == [1.0, None, 1.0]
    assert any("2 of 6 episodes failed (2x env) and are in no score" in text for text in summary["warnings"])
    retryable = {one.attempts for one in done.records if one.failure is not None and one.failure.retryable}
    final = {one.attempts for one in done.records if one.failure is not None and not one.failure.retryable}
    assert retryable <= {2}
    assert final <= {1}


def test_a_failure_that_passes_is_mended_by_a_retry(world: Eval) -> None:
    deaths: list[int] = []

    def dies_once(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if not deaths:
            deaths.append(1)
            return call("die")
        return find(messages, tools)

    done, _ = run(world, dies_once, limit=1, retries=1)
    (one,) = done.records
    assert (one.reward, one.attempts, one.failure) == (1.0, 2, None)
    assert one.earlier[0].startswith("env: ")
    assert one.tokens["replies"] == 3


def test_a_finished_run_plays_nothing_and_more_repeats_are_added(world: Eval) -> None:
    first, _ = run(world, find)
    before = (first.folder / EPISODES_FILE).read_bytes()
    endpoint = world[0](find)
    (first.folder / RUN_FILE).write_text(
        (first.folder / RUN_FILE).read_text().replace(first.settings.base_url, endpoint.url)
    )
    again, _ = run(world, endpoint)
    assert endpoint.bodies == []
    assert (first.folder / EPISODES_FILE).read_bytes() == before
    more, _ = run(world, endpoint, k=3)
    assert len(endpoint.bodies) == 12
    assert len(lines(more)) == 9
    assert len(again.records) == 3


def test_other_settings_do_not_mix(world: Eval) -> None:
    endpoint = world[0](find)
    run(world, endpoint)
    with pytest.raises(UsageError, match="max_turns: the run has 16, now 2"):
        run(world, endpoint, max_turns=2)


def test_failed_episodes_are_played_again_when_asked(world: Eval) -> None:
    broken = [True]

    def faults(_number: int, _body: Any) -> Any:
        return (400, {}, "out of order") if broken[0] else None

    server = world[0](find, faults=faults)
    done, _ = run(world, server)
    assert {str(one.failure.kind) for one in done.records} == {"model"}
    broken[0] = False
    same, _ = run(world, server)
    assert sum(1 for one in same.records if one.failure is not None) == 3
    mended, _ = run(world, server, retry_failed=True)
    assert [one.reward for one in mended.records] == [1.0] * 3
    assert len(lines(mended)) == 6
    assert len(read_run(mended.folder)[1]) == 3


def test_a_key_that_is_refused_stops_the_run_and_records_nothing(world: Eval) -> None:
    done, endpoint = run(world, find, server={"key": "another"}, key=KEY, concurrency=1, k=5)
    assert "401" in done.stopped
    assert "--api-key-var" in done.stopped
    assert done.records == []
    assert len(endpoint.bodies) == 1
    assert KEY not in done.stopped


def test_the_key_is_sent_and_nowhere_written(world: Eval, capfd: pytest.CaptureFixture[str]) -> None:
    def tells(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        del messages, tools
        return say(f"your key is {KEY}")

    done, endpoint = run(world, tells, server={"key": KEY}, key=KEY)
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert len(done.records) == 3
    written = b"".join(path.read_bytes() for path in done.folder.iterdir())
    assert KEY.encode() not in written
    assert b"your key is [key]" in written
    assert KEY not in "".join(capfd.readouterr())


def test_a_broken_endpoint_stops_the_run(world: Eval) -> None:
    def boom(_number: int, _body: Any) -> Any:
        return 500, {}, "boom"

    done, _ = run(
        world,
        find,
        server={"faults": boom},
        model_retries=0,
        k=10,
        concurrency=1,
        stop_after_failures=4,
    )
    assert len(done.records) == 4
    assert done.stopped.startswith("4 episodes failed one after another; the last: model: ")


def test_a_full_context_ends_the_episode_with_a_score(world: Eval) -> None:
    def full(_number: int, body: dict[str, Any]) -> Any:
        words = {"error": {"message": "maximum context length is 100 tokens"}}
        return (400, {}, words) if len(body["messages"]) > 1 else None

    done, _ = run(world, find, server={"faults": full})
    assert {(one.reward, one.end_reason, one.truncated) for one in done.records} == {(0.0, "context", True)}


def test_budgets(world: Eval) -> None:
    done, _ = run(world, find, max_episode_tokens=100)
    assert {(one.end_reason, one.reward, one.spent) for one in done.records} == {("budget", 0.0, 110)}
    assert {one.warnings for one in done.records} == {("the episode's budget of 100 tokens was spent",)}


def test_the_runs_budget_stops_and_a_larger_one_goes_on(world: Eval) -> None:
    endpoint = world[0](find)
    done, _ = run(world, endpoint, k=3, concurrency=1, max_total_tokens=600)
    assert len(done.records) == 3
    assert done.stopped == "the run's budget of 600 tokens is spent (660)"
    stopped, _ = run(world, endpoint, k=3, concurrency=1, max_total_tokens=600)
    assert len(stopped.records) == 3
    done, _ = run(world, endpoint, k=3, concurrency=1)
    assert (len(done.records), done.stopped) == (9, None)


def test_more_tasks_continue_a_run(world: Eval) -> None:
    endpoint = world[0](find)
    first, _ = run(world, endpoint, limit=1, k=2)
    assert (len(first.records), first.settings.tasks) == (2, 1)
    asked = len(endpoint.bodies)
    done, _ = run(world, endpoint, k=2)
    assert (len(done.records), done.settings.tasks) == (6, 3)
    assert len(endpoint.bodies) == 3 * asked, "what was played is not played again"
    with pytest.raises(UsageError, match=r"tasks: the run has 3, now 1"):
        run(world, endpoint, limit=1, k=2)


def test_a_parser_reads_calls_from_text(world: Eval) -> None:
    def writes(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        del tools
        if any(message["role"] == "tool" for message in messages):
            return say(WORD)
        return say('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>')

    unread, _ = run(world, writes)
    assert {(one.unparsed_calls, one.reward) for one in unread.records} == {(1, 0.0)}
    done, _ = run(world, writes, parser="hermes", out=unread.folder.parent / "parsed")
    assert {(one.tool_calls, one.reward) for one in done.records} == {(1, 1.0)}


def test_tasks_with_a_seed_get_one(chat: Callable[..., Any], play: Callable[..., Any], tmp_path: Path) -> None:
    steps = [*ask("Room <seed>?"), contains("word", "Room <seed>?")]
    world = (chat, play, write_bundle(tmp_path / "seeded", {"a": steps}, evals={"train": ["a"]}))

    def repeats(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        del tools
        return say(messages[0]["content"])

    done, endpoint = run(world, repeats, k=2, task_seed=17)
    assert [one.reward for one in done.records] == [1.0, 1.0]
    assert {body["messages"][0]["content"] for body in endpoint.bodies} == {"Room 17?"}


def test_an_unknown_split_is_said(world: Eval) -> None:
    with pytest.raises(UsageError, match=r"no split 'nope'; it has: all, eval, train"):
        run(world, find, split="nope")


def test_a_cancelled_run_keeps_what_ended_and_leaves_nothing(world: Eval) -> None:
    chat, play, bundle = world
    endpoint = chat(find)

    async def main() -> None:
        async with serve_in_process(bundle) as served, asyncio.timeout(60):
            several = asyncio.create_task(play(served.url, endpoint, k=50, concurrency=4))
            while len(endpoint.bodies) < 60:  # noqa: ASYNC110 - another thread counts
                await asyncio.sleep(0.01)
            several.cancel()
            with pytest.raises(asyncio.CancelledError):
                await several
            await served.quiet()

    asyncio.run(main())
    _, records = read_run(bundle.parent / "run")
    assert 0 < len(records) < 150
    assert all(one.reward == 1.0 for one in records)
    done, _ = run(world, endpoint, k=50)
    assert len(lines(done)) == len(done.records) == 150


def test_a_server_that_cannot_be_reached_any_more_is_a_failure_once_its_time_is_over(world: Eval) -> None:
    chat, play, bundle = world
    ended: list[Any] = []

    def leaves(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        stopping.set()
        assert stopped.wait(30)
        return find(messages, tools)

    endpoint = chat(leaves)
    stopping, stopped = threading.Event(), threading.Event()

    async def main() -> None:
        async with asyncio.timeout(60):
            async with serve_in_process(bundle) as served:
                playing = asyncio.create_task(play(served.url, endpoint, limit=1, reset_timeout=1.5, retries=3))
                await asyncio.to_thread(stopping.wait)
            stopped.set()
            ended.append(await playing)

    asyncio.run(main())
    (one,) = ended[0].records
    assert one.reward is None
    assert one.failure.kind == "server"
    assert one.attempts == 2


def test_a_disk_that_is_full_ends_the_run_and_its_episodes(world: Eval, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_store: RunStore, _record: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunStore, "append", full)
    chat, play, bundle = world
    endpoint = chat(find)

    async def main() -> None:
        async with serve_in_process(bundle) as served, asyncio.timeout(60):
            before = asyncio.all_tasks()
            with pytest.raises(ExceptionGroup) as caught:
                await play(served.url, endpoint, k=4)
            assert caught.group_contains(OSError, match="No space left")
            await served.quiet()
            own = [task for task in asyncio.all_tasks() - before if "evaluation" in repr(task.get_coro())]
            assert own == []

    asyncio.run(main())


def test_an_endpoint_object_shows_no_key() -> None:
    assert KEY not in repr(Endpoint("http://a.example", key=KEY))
