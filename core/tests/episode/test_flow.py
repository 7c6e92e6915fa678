"""The course of an episode, with envs inside the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Outcome, Turn, UnknownTool
from agent_env.errors import EnvError, EpisodeFailed, SandboxUnavailable, UsageError
from agent_env.plugin.tools import ToolResult, ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

if TYPE_CHECKING:
    from collections.abc import Callable

Build = Any


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": {}})


def test_an_episode_from_start_to_score(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            episode = it.episode()
            turn = await episode.start()
            assert turn == Turn(1, "Say hello.", None, "prompt_agent")
            assert [tool.name for tool in episode.tools] == ["echo", "end_turn"]
            result = await episode.call_tool("echo", {"text": "hi"})
            assert result.text == "hi"
            outcome = await episode.end_turn("well, hello", invalid_calls=2)
            assert isinstance(outcome, Outcome)
            assert (outcome.reward, outcome.scores, outcome.failure) == (1.0, {"reply": 1.0}, None)
            assert (outcome.facts.turns, outcome.facts.tool_calls, outcome.facts.invalid_calls) == (1, 1, 2)
            assert set(outcome.timings) == {"deploy_s", "tools_s", "verifier_s"}
            assert await episode.end_turn("again") is outcome

    asyncio.run(play())


def test_prompts_are_turns_of_one_conversation(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(
        steps.deploy,
        {"type": "deploy_agent", "env_ids": ["echo"], "system_prompt": "Be brief."},
        {"type": "prompt_agent", "id": "one", "prompt": "First?"},
        {"type": "prompt_agent", "id": "two", "prompt": "Second?", "system_prompt": "Be long.", "prompt_id": "second"},
        {"type": "prompt_agent", "id": "three", "prompt": "Third?"},
        {**steps.reply, "id": "of_two", "prompt_id": "second"},
    )

    async def play() -> None:
        async with in_process(bundle) as it:
            episode = it.episode()
            first = await episode.start()
            second = await episode.end_turn("1")
            third = await episode.end_turn("hello")
            assert (first.prompt, first.system_prompt) == ("First?", "Be brief.")
            assert second == Turn(2, "Second?", "Be long.", "second")
            assert third == Turn(3, "Third?", "Be long.", "three")
            outcome = await episode.end_turn("3", truncated=True)
            assert isinstance(outcome, Outcome)
            assert outcome.scores == {"of_two": 1.0}
            assert outcome.facts.turns == 3
            assert outcome.facts.truncated

    asyncio.run(play())


def test_the_models_mistakes_do_not_end_the_episode(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)
    refusal = ToolResult(content=({"type": "text", "text": "no"},), is_error=True)

    async def play() -> None:
        tools: dict[str, Callable[[Any], ToolResult]] = {"submit": lambda _: refusal}
        async with in_process(bundle, envs={"echo": lambda: InProcessEnv(specs=[spec("submit")], tools=tools)}) as it:
            episode = it.episode()
            await episode.start()
            with pytest.raises(UnknownTool, match=r"no tool 'submitt'.*did you mean 'submit'"):
                await episode.call_tool("submitt", {})
            assert (await episode.call_tool("submit", {})).is_error
            outcome = await episode.end_turn("hello")
            assert isinstance(outcome, Outcome)
            assert outcome.reward == 1.0
            assert outcome.facts.tool_calls == 1

    asyncio.run(play())


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({"echo": ["go"], "other": ["go"]}, "env 'echo' and env 'other' both offer a tool named 'go'"),
        ({"echo": ["end_turn"], "other": []}, "env 'echo' offers a tool named 'end_turn'"),
        ({"echo": ["x"], "other": ["reset"]}, "env 'other' offers a tool named 'reset'"),
    ],
)
def test_tools_that_clash_fail_the_reset(
    bundle: Build, steps: Any, in_process: Any, tools: dict[str, list[str]], words: str
) -> None:
    bundle.env(server="# tools unknown").env("other", server="# tools unknown").task(
        steps.deploy, {"type": "deploy_env", "id": "two", "env_id": "other"}, steps.ask, steps.reply
    )

    def maker(names: list[str]) -> Callable[[], InProcessEnv]:
        return lambda: InProcessEnv(specs=[spec(tool) for tool in names])

    envs = {name: maker(names) for name, names in tools.items()}

    async def play() -> None:
        async with in_process(bundle, envs=envs) as it:
            with pytest.raises(EpisodeFailed, match=words) as error:
                await it.episode().start()
            assert error.value.failure.kind == "env"
            assert it.engine.open_episodes == 0

    asyncio.run(play())


def test_the_agent_gets_the_tools_of_its_envs_only(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().env("other").task(
        {"type": "deploy_env", "id": "two", "env_id": "other"},
        steps.deploy,
        {"type": "deploy_agent", "env_ids": ["other"], "role": "player"},
        steps.ask,
        steps.reply,
    )
    envs = {name: (lambda name=name: InProcessEnv(specs=[spec(f"{name}_tool")])) for name in ("echo", "other")}

    async def play() -> None:
        async with in_process(bundle, envs=envs) as it:
            episode = it.episode()
            await episode.start()
            assert [tool.name for tool in episode.tools] == ["other_tool", "end_turn"]
            assert [env.role for env in it.deployer.deployed] == ["player", None]

    asyncio.run(play())


def test_equal_tools_are_one_list(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env()
    bundle.task(steps.deploy, steps.ask, steps.reply, name="one")
    bundle.task({**steps.deploy, "id": "other_id"}, steps.ask, steps.reply, name="two")
    fresh = {"echo": lambda: InProcessEnv(specs=[spec("a"), spec("b")])}

    async def play() -> None:
        async with in_process(bundle, envs=fresh) as it:
            episodes = [it.episode(0), it.episode(0), it.episode(1)]
            for episode in episodes:
                await episode.start()
            assert episodes[0].tools is episodes[1].tools is episodes[2].tools

    asyncio.run(play())


def test_an_env_that_lists_other_tools_is_not_hidden_by_the_shared_list(
    bundle: Build, steps: Any, in_process: Any
) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)
    made = iter([["a"], ["a", "b"]])
    varying = {"echo": lambda: InProcessEnv(specs=[spec(name) for name in next(made)])}

    async def play() -> None:
        async with in_process(bundle, envs=varying) as it:
            first, second = it.episode(), it.episode()
            await first.start()
            await second.start()
            assert [tool.name for tool in first.tools] == ["a", "end_turn"]
            assert [tool.name for tool in second.tools] == ["a", "b", "end_turn"]

    asyncio.run(play())


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failed_deploy_says_whether_to_try_again(bundle: Build, steps: Any, in_process: Any, retryable: bool) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def refuse() -> InProcessEnv:
        raise SandboxUnavailable("the machine is full", retryable=retryable)

    async def play() -> None:
        async with in_process(bundle, envs={"echo": refuse}) as it:
            episode = it.episode()
            with pytest.raises(EpisodeFailed, match="deploy: step 'deploy_env': the machine is full") as error:
                await episode.start()
            assert error.value.failure.kind == "deploy"
            assert error.value.failure.retryable is retryable
            with pytest.raises(EpisodeFailed):
                await episode.call_tool("echo", {})
            outcome = await episode.end_turn("x")
            assert isinstance(outcome, Outcome)
            assert outcome.failure == error.value.failure

    asyncio.run(play())


def test_a_failed_deploy_ends_the_episode_even_when_errors_of_the_step_are_forgiven(
    bundle: Build, steps: Any, in_process: Any
) -> None:
    bundle.env().task({**steps.deploy, "fail_task_on_error": False}, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle, deployer=InProcessDeployer({})) as it:
            with pytest.raises(EpisodeFailed, match="deploy"):
                await it.episode().start()

    asyncio.run(play())


def test_a_turn_that_cannot_open_is_never_forgiven(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, {**steps.ask, "fail_task_on_error": False}, steps.reply)
    clash = {"echo": lambda: InProcessEnv(specs=[spec("close")])}

    async def play() -> None:
        async with in_process(bundle, envs=clash) as it:
            with pytest.raises(EpisodeFailed, match="'close', a name kept"):
                await it.episode().start()

    asyncio.run(play())


def test_what_a_step_does_to_an_env_can_be_forgiven_unless_the_env_is_gone(
    bundle: Build, steps: Any, in_process: Any
) -> None:
    config: dict[str, Any] = {
        "type": "apply_server_config",
        "env_id": "echo",
        "directives": [{"service": "echo", "uri": "urn:x:y/v1", "args": {}}],
        "fail_task_on_error": False,
    }
    bundle.env().task(steps.deploy, config, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            assert (await it.episode().start()).number == 1
        dead = {"echo": lambda: InProcessEnv(gone="ended with exit code 1")}
        async with in_process(bundle, envs=dead) as it:
            with pytest.raises(EpisodeFailed, match="env: env 'echo' ended with exit code 1"):
                await it.episode().start()

    asyncio.run(play())


def test_a_dead_env_is_a_failure_with_its_last_words(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            episode = it.episode()
            await episode.start()
            it.deployer.deployed[0].gone = "ended with exit code 9; its last output:\nout of memory"
            with pytest.raises(EpisodeFailed) as error:
                await episode.call_tool("echo", {"text": "hi"})
            failure = error.value.failure
            assert (failure.kind, failure.retryable) == ("env", True)
            for words in ("env 'echo'", "tool 'echo'", "exit code 9", "out of memory"):
                assert words in failure.message
            outcome = await episode.end_turn("x")
            assert isinstance(outcome, Outcome)
            assert (outcome.failure, outcome.reward) == (failure, None)

    asyncio.run(play())


def test_a_tool_past_its_deadline_ends_the_episode(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)
    hang = {"echo": lambda: InProcessEnv(specs=[spec("hang")], tools={"hang": lambda _: asyncio.sleep(3600)})}

    async def play() -> None:
        async with in_process(bundle, envs=hang) as it:
            episode = it.episode()
            await episode.start()
            with pytest.raises(EpisodeFailed, match=r"tool 'hang'.*longer than 0.05 s") as error:
                await episode.call_tool("hang", {}, timeout=0.05)
            assert error.value.failure.kind == "tool_timeout"

    asyncio.run(play())


def test_closing_cancels_a_call_under_way(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)
    stopped: list[str] = []

    async def play() -> None:
        began = asyncio.Event()

        async def hang(_: object) -> str:
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.append("stopped")
            return ""

        env = lambda: InProcessEnv(specs=[spec("hang")], tools={"hang": hang})  # noqa: E731
        async with in_process(bundle, envs={"echo": env}) as it:
            episode = it.episode()
            await episode.start()
            calls = [asyncio.create_task(episode.call_tool("hang", {}, timeout=limit)) for limit in (None, 60)]
            await began.wait()
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="still running"):
                await episode.end_turn("early")
            await episode.close("the client went away")
            for call in calls:
                with pytest.raises(EpisodeFailed, match=r"aborted: .*the client went away"):
                    await call
            await episode.close("twice")
            assert episode.outcome is not None
            assert episode.outcome.failure is not None
            assert episode.outcome.failure.kind == "aborted"

    asyncio.run(play())
    assert stopped == ["stopped", "stopped"]


def test_closing_the_engine_ends_its_episodes(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            episode = it.episode()
            await episode.start()
        assert episode.outcome is not None
        failure = episode.outcome.failure
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("aborted", True)
        with pytest.raises(EpisodeFailed, match="shutting down"):
            await it.episode().start()

    asyncio.run(play())


def test_misuse_is_said(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            episode = it.episode()
            with pytest.raises(UsageError, match="no turn is open"):
                await episode.end_turn("x")
            with pytest.raises(UsageError):
                episode.tools  # noqa: B018
            await episode.start()
            with pytest.raises(UsageError, match="starts once"):
                await episode.start()
            with pytest.raises(UsageError, match=r"Episode\.end_turn"):
                await episode.call_tool("end_turn", {})
            await episode.end_turn("hello")
            with pytest.raises(UsageError, match="over"):
                await episode.call_tool("echo", {})

    asyncio.run(play())


def test_a_step_that_breaks_unexpectedly_is_the_servers_failure(
    bundle: Build, steps: Any, in_process: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bundle.env().task(
        steps.deploy, {"type": "reset_env", "env_id": "echo", "fail_task_on_error": True}, steps.ask, steps.reply
    )

    class Broken(InProcessEnv):
        async def data_reset(self) -> None:
            raise ZeroDivisionError("oh")

    async def play() -> None:
        async with in_process(bundle, envs={"echo": Broken}) as it:
            with pytest.raises(EpisodeFailed, match=r"server: step 'reset_env'.*internal ZeroDivisionError"):
                await it.episode().start()

    asyncio.run(play())
    assert any(record.exc_info for record in caplog.records)


def test_reset_env_is_best_effort_by_default(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, {"type": "reset_env", "env_id": "echo"}, steps.ask, steps.reply)

    class Unresettable(InProcessEnv):
        async def data_reset(self) -> None:
            raise EnvError("not served")

    async def play() -> None:
        async with in_process(bundle, envs={"echo": Unresettable}) as it:
            assert (await it.episode().start()).number == 1

    asyncio.run(play())
