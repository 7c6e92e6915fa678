"""Steps that work in sandboxes, in real process sandboxes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Episode, Outcome
from agent_env.errors import EpisodeFailed, SandboxUnsupported

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Build = Any
Serve = Any

BOX = {"type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "sandbox_type": "local"}


def play(
    serve: Serve, bundle: Build, act: Callable[[Episode], Awaitable[Any]] | None = None, reply: str = "x"
) -> Outcome:
    """Play the task with ``act`` in its turn."""

    async def run() -> Outcome:
        async with serve(bundle) as engine:
            episode = engine.episode(engine.bundle.task("all", 0))
            await episode.start()
            if act is not None:
                await act(episode)
            outcome = await episode.end_turn(reply)
            assert isinstance(outcome, Outcome)
            return outcome

    return asyncio.run(run())


def probes(*criteria: dict[str, Any], **fields: Any) -> dict[str, Any]:
    rows = [{"type": item.pop("is"), **item} for item in map(dict, criteria)]
    return {"type": "verify_sandbox", "id": "probe", "sandbox_name": "box", "criteria": rows, **fields}


def test_files_and_commands_of_a_sandbox(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.artifact("greeting", hello_txt="well, hello\n", check_sh="grep -q hello hello.txt\n")
    bundle.task(
        BOX,
        {
            "type": "load_artifact",
            "sandbox_name": "box",
            "artifact_id": "greeting",
            "destination_path": "/app/greeting",
        },
        steps.ask,
        probes(
            {"is": "probe_file_exists", "paths": ["hello.txt", "/app/greeting/check.sh"]},
            {"is": "probe_dir_exists", "paths": ["/app"]},
            {"is": "probe_file_contains", "paths": ["hello.txt"], "expected": "^well, h.l+o"},
            {"is": "bash_cmd_succeeds", "bash_cmd": "bash check.sh"},
            {"is": "bash_cmd_succeeds", "bash_cmd": "test $(basename $PWD) = greeting"},
            base_dir="/app/greeting",
        ),
    )
    outcome = play(serve, bundle)
    assert (outcome.failure, outcome.scores) == (None, {"probe": 1.0})


def test_probes_that_do_not_pass_are_rows(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.task(
        BOX,
        steps.ask,
        probes(
            {"is": "bash_cmd_succeeds", "bash_cmd": "true"},
            {"is": "probe_file_exists", "paths": ["nope"]},
            {"is": "probe_dir_exists", "paths": ["/nope"]},
            {"is": "probe_file_contains", "paths": ["nope"], "expected": "x"},
            {"is": "bash_cmd_succeeds", "bash_cmd": "sleep 3600"},
            base_dir="/",
            shell_timeout_seconds=1,
            score_aggregator="weighted_average",
        ),
    )
    outcome = play(serve, bundle)
    assert (outcome.failure, outcome.scores) == (None, {"probe": 0.2})


@pytest.mark.parametrize(
    ("criterion", "program"),
    [
        ({"is": "bash_cmd_succeeds", "bash_cmd": "true"}, "bash"),
        ({"is": "probe_file_exists", "paths": ["/"]}, "test"),
        ({"is": "probe_dir_exists", "paths": ["/"]}, "test"),
    ],
)
def test_a_sandbox_without_the_program_is_a_failure_and_no_score(
    bundle: Build, steps: Any, serve: Serve, criterion: dict[str, Any], program: str
) -> None:
    bundle.task({**BOX, "env_vars": {"PATH": "/there/is/none"}}, steps.ask, probes(criterion, base_dir="/"))
    with pytest.raises(EpisodeFailed, match=f"cannot run `{program}`") as error:
        play(serve, bundle)
    assert error.value.failure.kind == "deploy"


def test_a_program_that_the_agent_broke_is_no_failure(bundle: Build, steps: Any, serve: Serve) -> None:
    agent = {"type": "deploy_agent", "sandbox_name": "box"}
    box = {**BOX, "env_vars": {"PATH": "/tmp/own:/usr/bin:/bin"}}
    probe = probes({"is": "bash_cmd_succeeds", "bash_cmd": "true"}, base_dir="/")
    del probe["sandbox_name"]
    bundle.task(box, agent, steps.ask, probe)

    async def act(episode: Episode) -> None:
        breaks = "mkdir -p /tmp/own && printf 'exit 9' > /tmp/own/bash && chmod +x /tmp/own/bash && bash"
        done = await episode.call_tool("bash", {"command": breaks})
        assert done.text.endswith("[exit code 9]")

    outcome = play(serve, bundle, act)
    assert (outcome.failure, outcome.scores) == (None, {"probe": 0.0})


def test_a_command_that_is_not_found_is_a_row(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.task(BOX, steps.ask, probes({"is": "bash_cmd_succeeds", "bash_cmd": "there-is-none"}, base_dir="/"))
    outcome = play(serve, bundle)
    assert (outcome.failure, outcome.scores) == (None, {"probe": 0.0})


def test_the_agents_own_sandbox_has_a_shell(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.artifact("notes", a_txt="first\n", b_txt="second\n").artifact(
        "count",
        count_py="""
        from pathlib import Path
        def run(input):
            print("aside")
            return {"args": input["args"], "words": Path("/loaded/a.txt").exists()}
        """,
    )
    probe = probes({"is": "probe_file_contains", "paths": ["out.txt"], "expected": "first"}, base_dir="/loaded")
    del probe["sandbox_name"]
    bundle.task(
        {"type": "deploy_agent", "agent_name": "me"},
        {"type": "load_artifact", "agent_name": "me", "artifact_id": "notes"},
        {**steps.ask, "agent_name": "me"},
        {**probe, "agent_name": "me"},
    )

    async def act(episode: Episode) -> None:
        assert [tool.name for tool in episode.tools] == ["bash", "end_turn"]
        listed = await episode.call_tool(
            "bash", {"command": "cd /loaded 2>/dev/null || cd loaded; ls; cp a.txt out.txt"}
        )
        assert listed.text.split() == ["a.txt", "b.txt"]
        failing = await episode.call_tool("bash", {"command": "echo oops >&2; exit 3"})
        assert failing.text == "oops\n[exit code 3]"
        slow = await episode.call_tool("bash", {"command": "sleep 3600", "timeout": 0.3})
        assert slow.is_error
        assert "ended after 0.3 s" in slow.text
        for wrong in ({}, {"command": 3}, {"command": "ls", "cwd": "/"}, {"command": "ls", "timeout": -1}):
            assert (await episode.call_tool("bash", wrong)).is_error

    outcome = play(serve, bundle, act)
    assert (outcome.failure, outcome.scores) == (None, {"probe": 1.0})
    assert outcome.facts.tool_calls == 7


def test_a_script_runs_in_a_sandbox_and_its_value_is_kept(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.artifact(
        "script",
        run_py="""
        import helper
        def run(input):
            print("aside")
            if input["args"]["n"] == 2:
                open("/tmp/made.txt", "w").write(helper.WORD)
            return {"got": input["args"], "results": input["results"]}
        """,
        helper_py="WORD = 'made'",
    )
    bundle.task(
        BOX,
        {"type": "run_code", "id": "plain", "script_artifact_id": "script", "args": {"n": 1}},
        {"type": "run_code", "id": "inside", "script_artifact_id": "script", "sandbox_name": "box", "args": {"n": 2}},
        steps.ask,
        probes({"is": "probe_file_contains", "paths": ["tmp/made.txt"], "expected": "made"}, base_dir="/"),
    )

    async def act(episode: Episode) -> None:
        plain: dict[str, Any] = {"got": {"n": 1}, "results": {}}
        assert episode._run.results == {"plain": plain, "inside": {"got": {"n": 2}, "results": {"plain": plain}}}

    assert play(serve, bundle, act).scores == {"probe": 1.0}


def test_a_script_that_fails_fails_the_reset(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.artifact("script", run_py="def run(input):\n    raise OSError('no data')")
    check = probes({"is": "bash_cmd_succeeds", "bash_cmd": "true"})
    bundle.task(BOX, {"type": "run_code", "script_artifact_id": "script", "sandbox_name": "box"}, steps.ask, check)
    with pytest.raises(EpisodeFailed, match=r"env: step 'run_code': .*OSError: no data"):
        play(serve, bundle)


def test_a_container_is_refused_where_there_is_none(bundle: Build, steps: Any, serve: Serve) -> None:
    box = {**BOX, "sandbox_mode": "container", "image": "docker.io/library/python:3.11-slim", "port": 80}
    bundle.task(box, steps.ask, probes({"is": "bash_cmd_succeeds", "bash_cmd": "true"}))
    with pytest.raises(EpisodeFailed, match="deploy: step 'deploy_sandbox': sandbox 'box'") as error:
        play(serve, bundle)
    assert not error.value.failure.retryable


def test_a_provider_that_is_not_installed_leaves_the_task_out(bundle: Build, steps: Any, registry: Any) -> None:
    from agent_env.episode import Engine

    bundle.env().task(steps.deploy, steps.ask, steps.reply, name="here")
    bundle.task({**steps.deploy, "sandbox_type": "moonbase"}, steps.ask, steps.reply, name="there")
    engine = Engine(bundle.load(), registry=registry)
    assert sorted(engine.bundle.templates) == ["here"]
    (problem,) = engine.bundle.left_out
    assert (problem.task, problem.step) == ("there", "deploy_env")
    assert "moonbase" in problem.message


def test_isolation_that_the_machine_lacks_is_refused(bundle: Build, steps: Any, serve: Serve) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def run() -> None:
        with pytest.raises(SandboxUnsupported, match="less than 'vm'") as error:
            async with serve(bundle, isolation="vm"):
                raise AssertionError("it started")
        assert not error.value.retryable

    asyncio.run(run())
