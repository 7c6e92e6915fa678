"""Whole episodes with real env servers in process sandboxes, and what happens when they break."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Engine, Outcome
from agent_env.errors import EpisodeFailed, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.episode import Episode

Build = Any
Serve = Any


def episode(engine: Engine, index: int = 0) -> Episode:
    return engine.episode(engine.bundle.task("all", index))


async def ended(one: Episode, reply: str = "hello", timeout: float = 60) -> Outcome:
    outcome = await one.end_turn(reply, timeout=timeout)
    assert isinstance(outcome, Outcome)
    return outcome


def failed(outcome: Outcome) -> Failure:
    assert outcome.reward is None
    assert outcome.failure is not None
    return outcome.failure


@pytest.fixture
def graded(bundle: Build, steps: Any) -> Callable[[str], Build]:
    """A bundle whose verifier has this text."""

    def make(verify: str, *, prefork: bool = False, **changes: Any) -> Build:
        return bundle.env(prefork=prefork).verifier(verify).task(steps.deploy, steps.ask, {**steps.grade, **changes})

    return make


SAID = "def verify(url):\n    return [{'id': 'said', 'result': data(url)['said'] == ['hi']}]"


def test_an_episode_is_graded_by_code_beside_its_env(graded: Any, serve: Serve) -> None:
    async def play() -> None:
        async with serve(graded(SAID)) as engine:
            one, two = episode(engine), episode(engine)
            await asyncio.gather(one.start(), two.start())
            assert [tool.name for tool in one.tools] == ["echo", "fail", "hang", "die", "end_turn"]
            assert (await one.call_tool("echo", {"text": "hi"})).text == "hi"
            refused = await one.call_tool("fail", {})
            assert refused.is_error
            assert "not today" in refused.text
            wrong = await one.call_tool("echo", {"words": 3})
            assert wrong.is_error
            outcomes = await asyncio.gather(ended(one), ended(two))
            assert [outcome.reward for outcome in outcomes] == [1.0, 0.0]
            assert [outcome.failure for outcome in outcomes] == [None, None]
            assert outcomes[0].facts.tool_calls == 3
            assert all(outcome.timings["verifier_s"] > 0 for outcome in outcomes)

    asyncio.run(play())


def test_the_verifier_reads_the_conversation(graded: Any, serve: Serve) -> None:
    verify = "async def verify(url, run):\n    return [{'result': run.turn(1).reply.text == 'Sold.'}]"

    async def play() -> None:
        async with serve(graded(verify)) as engine:
            one = episode(engine)
            await one.start()
            assert (await ended(one, "Sold.")).scores == {"grade": 1.0}

    asyncio.run(play())


@pytest.mark.parametrize("prefork", [False, True])
def test_kill_9_of_an_env_between_calls(graded: Any, serve: Serve, prefork: bool, processes: Any) -> None:
    async def play() -> None:
        async with serve(graded(SAID, prefork=prefork)) as engine:
            one = episode(engine)
            await one.start()
            handle = one._run.env("echo")
            (part,) = await handle.data_get()
            pid = _host_pid(part["data"]["pid"], processes)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(EpisodeFailed) as error:
                await one.call_tool("echo", {"text": "hi"}, timeout=30)
            failure = error.value.failure
            assert (failure.kind, failure.retryable) == ("env", True)
            assert "env 'echo'" in failure.message
            assert "exit code" in failure.message
            assert failed(await ended(one)) == failure

    asyncio.run(play())


def _host_pid(inner: int, processes: Callable[[], set[int]]) -> int:
    """The process among our descendants that calls itself ``inner`` in its own namespace."""
    for pid in processes():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):  # another one, which has ended since it was listed
            continue
        line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        if int(line.split()[-1]) == inner and "bwrap" not in command:
            return pid
    raise AssertionError(f"no process {inner}")


@pytest.mark.parametrize("prefork", [False, True])
def test_an_env_that_dies_in_a_call(graded: Any, serve: Serve, prefork: bool) -> None:
    async def play() -> None:
        async with serve(graded(SAID, prefork=prefork)) as engine:
            one = episode(engine)
            await one.start()
            with pytest.raises(EpisodeFailed) as error:
                await one.call_tool("die", {}, timeout=30)
            message = error.value.failure.message
            assert error.value.failure.kind == "env"
            for words in ("tool 'die'" if "tool 'die'" in message else "die", "exit code 7", "going down"):
                assert words in message

    asyncio.run(play())


def test_an_env_that_dies_before_the_verifier_is_an_env_failure(graded: Any, serve: Serve, processes: Any) -> None:
    async def play() -> None:
        async with serve(graded(SAID)) as engine:
            one = episode(engine)
            await one.start()
            (part,) = await one._run.env("echo").data_get()
            os.kill(_host_pid(part["data"]["pid"], processes), signal.SIGKILL)
            failure = failed(await ended(one))
            assert failure.kind == "env"
            assert "env 'echo'" in failure.message
            assert "step 'grade'" in failure.message

    asyncio.run(play())


def test_a_verifier_that_does_not_notice_the_death_of_its_env_scores_nothing(
    graded: Any, serve: Serve, processes: Any
) -> None:
    careless = """
    def verify(url):
        try:
            said = data(url)["said"]
        except OSError:
            said = []
        return [{"result": said == ["hi"]}]
    """

    async def play() -> None:
        async with serve(graded(careless)) as engine:
            one = episode(engine)
            await one.start()
            (part,) = await one._run.env("echo").data_get()
            os.kill(_host_pid(part["data"]["pid"], processes), signal.SIGKILL)
            outcome = await ended(one)
            assert failed(outcome).kind == "env"
            assert outcome.scores == {}

    asyncio.run(play())


def test_a_hung_tool(graded: Any, serve: Serve) -> None:
    async def play() -> None:
        async with serve(graded(SAID)) as engine:
            one = episode(engine)
            await one.start()
            with pytest.raises(EpisodeFailed) as error:
                await one.call_tool("hang", {}, timeout=0.3)
            assert error.value.failure.kind == "tool_timeout"
            assert "'echo'" in error.value.failure.message
            assert "hang" in error.value.failure.message

    asyncio.run(play())


@pytest.mark.parametrize(
    ("verify", "words"),
    [
        ("def verify(url):\n    raise KeyError('plan')", ["KeyError: 'plan'", "verify.py", "in verify"]),
        ("import os\ndef verify(url):\n    os._exit(3)", ["verify"]),
        ("import os, signal\ndef verify(url):\n    os.kill(os.getpid(), signal.SIGKILL)", ["verify"]),
        ("def verify(url):\n    return [{'result': True, 'score': float('nan')}]", ["no JSON"]),
        ("def verify(url):\n    return [{'result': True, 'score': 2}]", ["'score' must be in 0..1"]),
        ("def verify(url):\n    return 0.5", ["expected a list of rows"]),
        ("def verify(url):\n    return None", ["expected a list of rows"]),
        ("def verify(url):\n    return [{'result': 1}]", ["'result' must be true or false"]),
        ("def check(url):\n    return []", ["defines no function verify()"]),
        ("import not_there", ["No module named 'not_there'"]),
    ],
)
def test_a_verifier_that_fails_is_never_a_zero(graded: Any, serve: Serve, verify: str, words: list[str]) -> None:
    async def play() -> None:
        async with serve(graded(verify)) as engine:
            one = episode(engine)
            await one.start()
            outcome = await ended(one)
            failure = failed(outcome)
            assert failure.kind == "verifier"
            assert outcome.scores == {}
            for word in ["step 'grade'", *words]:
                assert word in failure.message

    asyncio.run(play())


def test_a_verifier_that_fails_fails_the_episode_even_when_errors_are_forgiven(graded: Any, serve: Serve) -> None:
    async def play() -> None:
        async with serve(graded("def verify(url):\n    1 / 0", fail_task_on_error=False)) as engine:
            one = episode(engine)
            await one.start()
            assert failed(await ended(one)).kind == "verifier"

    asyncio.run(play())


def test_a_hung_verifier(graded: Any, serve: Serve) -> None:
    verify = "import time\ndef verify(url):\n    time.sleep(3600)"

    async def play() -> None:
        async with serve(graded(verify), verifier_timeout=0.5) as engine:
            one = episode(engine)
            await one.start()
            failure = failed(await ended(one))
            assert failure.kind == "verifier"
            assert "step 'grade'" in failure.message

    asyncio.run(play())


def test_the_end_of_the_turn_bounds_the_verifier(graded: Any, serve: Serve) -> None:
    verify = "import time\ndef verify(url):\n    time.sleep(3600)"

    async def play() -> None:
        async with serve(graded(verify)) as engine:
            one = episode(engine)
            await one.start()
            assert failed(await ended(one, timeout=0.5)).kind == "verifier"

    asyncio.run(play())


def test_what_a_verifier_prints_is_not_its_answer(graded: Any, serve: Serve) -> None:
    verify = (
        "import os\ndef verify(url):\n    print('[]')\n    os.write(1, b'{\"ok\": []}')\n    return [{'result': True}]"
    )

    async def play() -> None:
        async with serve(graded(verify)) as engine:
            one = episode(engine)
            await one.start()
            assert (await ended(one)).reward == 1.0

    asyncio.run(play())


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("import sys\nprint('no licence')\nsys.exit(4)\n", "no licence"),
        ("import not_a_module\n", "not_a_module"),
    ],
)
def test_a_server_that_ends_at_the_start(bundle: Build, steps: Any, serve: Serve, server: str, words: str) -> None:
    bundle.env(server=server).task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with serve(bundle) as engine:
            with pytest.raises(EpisodeFailed) as error:
                await episode(engine).start()
            failure = error.value.failure
            assert failure.kind == "deploy"
            assert words in failure.message

    asyncio.run(play())


def test_closing_in_the_middle_of_everything(graded: Any, serve: Serve) -> None:
    """Episodes in every state when the engine closes: starting, idle, in a call, grading."""
    verify = "import time\ndef verify(url):\n    time.sleep(3600)"

    async def play() -> None:
        async with serve(graded(verify)) as engine:
            idle, calling, grading, starting = (episode(engine) for _ in range(4))
            await asyncio.gather(idle.start(), calling.start(), grading.start())
            call = asyncio.create_task(calling.call_tool("hang", {}))
            grade = asyncio.create_task(grading.end_turn("x"))
            start = asyncio.create_task(starting.start())
            await asyncio.sleep(0.05)
            await engine.close()
            for task in (call, start):
                with pytest.raises(EpisodeFailed, match="aborted"):
                    await task
            assert failed(await grade).kind == "aborted"  # type: ignore[arg-type]
            assert idle.outcome is not None
            assert failed(idle.outcome).kind == "aborted"

    asyncio.run(play())


def test_cancelled_starts_leave_no_process(graded: Any, serve: Serve, processes: Any) -> None:
    async def play() -> None:
        async with serve(graded(SAID)) as engine:
            warm = episode(engine)
            await warm.start()
            await warm.close()
            before = processes()
            for delay in (0, 0.005, 0.02, 0.05, 0.08, 0.1, 0.12):
                one = episode(engine)
                task = asyncio.create_task(one.start())
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    await one.close()
            assert engine.open_episodes == 0
            async with asyncio.timeout(10):
                while True:
                    if processes() <= before:
                        break
                    await asyncio.sleep(0.02)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("end", "retryable"),
    [("os._exit(3)", False), ("os._exit(0)", False), ("os._exit(137)", True), ("os.kill(os.getpid(), 9)", True)],
)
def test_only_a_start_that_was_killed_is_worth_a_retry(
    bundle: Build, steps: Any, serve: Serve, end: str, retryable: bool
) -> None:
    built = bundle.env().task(steps.deploy, steps.ask, steps.reply)
    server = built.path / "envs" / "echo" / "server.py"
    server.write_text(f"import os\n{end}\n")

    async def play() -> None:
        async with serve(built) as engine:
            with pytest.raises(EpisodeFailed) as caught:
                await episode(engine).start()
            assert caught.value.failure.kind == "deploy"
            assert caught.value.failure.retryable == retryable

    asyncio.run(play())


def test_envs_without_isolation_are_said_to_be(
    bundle: Build, steps: Any, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with serve(bundle.env().task(steps.deploy, steps.ask, steps.reply)) as engine:
            one = episode(engine)
            assert one.isolation is None
            await one.start()
            assert one.isolation == engine.isolation
            warned = [record for record in caplog.records if "without isolation (isolation: none)" in record.message]
            assert (engine.isolation == "none") == (len(warned) == 1)
            assert all("install bubblewrap" in record.message for record in warned)
            await one.close()

    asyncio.run(play())
