"""What the built-in steps do to envs, with envs inside the process."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Engine, Episode, Outcome
from agent_env.errors import EnvRequestError, EnvUnsupported, EpisodeFailed
from agent_env.plugin.tools import ToolSpec
from agent_env.testing.in_process import InProcessEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.plugin.sandbox import CodeRequest

Build = Any


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": {}})


def play(in_process: Any, bundle: Build, make: Callable[[], InProcessEnv], check: Any = None, **options: Any) -> Any:
    """Start the task; the env, or what ``check(episode)`` answers."""

    async def run() -> Any:
        async with in_process(bundle, envs={"echo": make}, **options) as it:
            episode = it.episode()
            await episode.start()
            return it.deployer.deployed[0] if check is None else await check(episode)

    return asyncio.run(run())


# -- apply_server_config ----------------------------------------------------------------------------------------------

LOAD = {"service": "echo", "uri": "urn:echo:load/v1", "args": {"day": "monday"}}


def configured(steps: Any, **fields: Any) -> tuple[dict[str, Any], ...]:
    step = {"type": "apply_server_config", "env_id": "echo", "directives": [LOAD], **fields}
    return steps.deploy, step, steps.ask, steps.reply


def test_directives_call_extensions_and_their_answers_are_kept(bundle: Build, steps: Any, in_process: Any) -> None:
    seen: list[Mapping[str, Any]] = []

    def load(params: Mapping[str, Any]) -> dict[str, str]:
        seen.append(params)
        return {"loaded": "yes"}

    async def results(episode: Episode) -> Any:
        return episode._run.results

    bundle.env().task(*configured(steps, directives=[LOAD, {"environment": "*", "uri": "urn:echo:load/v1"}]))
    kept = play(in_process, bundle, lambda: InProcessEnv(extensions={"urn:echo:load/v1": load}), results)
    assert seen == [{"day": "monday"}, {}]
    assert [answer["result"] for answer in kept["apply_server_config"]] == [{"loaded": "yes"}] * 2


class Silent(InProcessEnv):
    """Advertises nothing."""

    async def call_extension(self, uri: str, params: Mapping[str, Any], **_: Any) -> Any:
        raise EnvUnsupported(f"it does not advertise {uri}")


def test_an_extension_that_is_not_advertised(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(*configured(steps))
    with pytest.raises(EpisodeFailed, match=r"env: step 'apply_server_config': env 'echo': .*not advertise") as error:
        play(in_process, bundle, Silent)
    assert not error.value.failure.retryable


def test_an_extension_that_is_not_advertised_can_be_tolerated(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(*configured(steps, tolerate_unadvertised=True))

    async def results(episode: Episode) -> Any:
        return episode._run.results["apply_server_config"]

    assert play(in_process, bundle, Silent, results)[0]["skipped"] is True


@pytest.mark.parametrize("retryable", [True, False])
def test_an_extension_that_refuses_fails_the_reset(bundle: Build, steps: Any, in_process: Any, retryable: bool) -> None:
    def refuse(_: object) -> None:
        raise EnvRequestError("no such day", code="not_found", applied="no", retryable=retryable)

    bundle.env().task(*configured(steps))
    with pytest.raises(EpisodeFailed, match=r"env 'echo'.*no such day") as error:
        play(in_process, bundle, lambda: InProcessEnv(extensions={"urn:echo:load/v1": refuse}))
    assert (error.value.failure.kind, error.value.failure.retryable) == ("env", retryable)


# -- modify_env_tool_access -------------------------------------------------------------------------------------------


def access(*changes: tuple[str, str, list[str]]) -> list[dict[str, Any]]:
    return [
        {
            "type": "modify_env_tool_access",
            "id": f"access{number}",
            "env_id": "echo",
            "action": action,
            "role": role,
            "tools": tools,
        }
        for number, (action, role, tools) in enumerate(changes)
    ]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([("disable", "*", ["a"])], ["b", "c"]),
        ([("disable", "*", ["*"]), ("enable", "*", ["b"])], ["b"]),
        ([("disable", "player", ["a"])], ["b", "c"]),
        ([("disable", "judge", ["a"])], ["a", "b", "c"]),
        ([("disable", "*", ["a"]), ("enable", "player", ["a"])], ["a", "b", "c"]),
        ([("enable", "player", ["a"]), ("disable", "*", ["a"])], ["b", "c"]),
        ([("disable", "player", ["a", "b"]), ("enable", "*", ["*"])], ["a", "b", "c"]),
        ([("disable", "player", ["a", "b"]), ("enable", "player", ["*"])], ["a", "b", "c"]),
    ],
)
def test_the_engine_keeps_the_rules_for_an_env_that_does_not(
    bundle: Build, steps: Any, in_process: Any, changes: list[tuple[str, str, list[str]]], left: list[str]
) -> None:
    agent = {"type": "deploy_agent", "role": "player"}
    bundle.env().task(steps.deploy, *access(*changes), agent, steps.ask, steps.reply)

    class Plain(Silent):
        async def list_tools(self) -> list[ToolSpec]:
            return [spec(name) for name in "abc"]

    async def tools(episode: Episode) -> list[str]:
        return [tool.name for tool in episode.tools]

    assert play(in_process, bundle, Plain, tools) == [*left, "end_turn"]


def test_an_env_with_rules_of_its_own_is_asked(bundle: Build, steps: Any, in_process: Any) -> None:
    asked: list[Mapping[str, Any]] = []
    bundle.env().task(steps.deploy, *access(("disable", "*", ["*"]), ("enable", "p", ["a"])), steps.ask, steps.reply)
    make = lambda: InProcessEnv(  # noqa: E731
        extensions={"urn:agentenv:disable-tool/v1": asked.append, "urn:agentenv:enable-tool/v1": asked.append}
    )
    play(in_process, bundle, make)
    assert asked == [{"role": "*", "tools": "*"}, {"role": "p", "tools": ["a"]}]


def test_access_changed_between_turns_changes_the_tools(bundle: Build, steps: Any, in_process: Any) -> None:
    again = {"type": "prompt_agent", "id": "again", "prompt": "And now?"}
    bundle.env().task(steps.deploy, steps.ask, *access(("disable", "*", ["a"])), again, steps.reply)

    class Plain(Silent):
        async def list_tools(self) -> list[ToolSpec]:
            return [spec("a"), spec("b")]

    async def tools(episode: Episode) -> list[list[str]]:
        first = [tool.name for tool in episode.tools]
        await episode.end_turn("x")
        return [first, [tool.name for tool in episode.tools]]

    assert play(in_process, bundle, Plain, tools) == [["a", "b", "end_turn"], ["b", "end_turn"]]


# -- load_artifact ----------------------------------------------------------------------------------------------------


def test_an_artifact_is_loaded_into_an_env_after_a_reset(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().artifact("day", day_json='{"hour": 1}')
    bundle.task(
        steps.deploy,
        {"type": "load_artifact", "env_id": "echo", "artifact_id": "day", "urls": ["https://example.com/a/b.csv?x=1"]},
        steps.ask,
        steps.reply,
    )
    parts = play(in_process, bundle, lambda: InProcessEnv(parts=[{"kind": "text", "text": "old"}])).parts
    assert [part["kind"] for part in parts] == ["file", "file"]
    assert base64.b64decode(parts[0]["file"]["bytes"]) == b'{"hour": 1}'
    assert (parts[0]["file"]["name"], parts[0]["file"]["mimeType"]) == ("day.json", "application/json")
    assert parts[1]["file"] == {"uri": "https://example.com/a/b.csv?x=1", "mimeType": "text/csv", "name": "b.csv"}


# -- run_code ---------------------------------------------------------------------------------------------------------


def test_scripts_see_arguments_the_env_and_earlier_results(bundle: Build, steps: Any, in_process: Any) -> None:
    seen: list[tuple[str | None, CodeRequest]] = []

    def code(env: str | None, request: CodeRequest) -> Any:
        seen.append((env, request))
        return len(seen)

    bundle.env().artifact("one", only_py="").artifact("many", run_py="", helper_py="")
    bundle.task(
        steps.deploy,
        {"type": "run_code", "id": "a", "script_artifact_id": "one", "args": {"x": 1}, "env_id": "echo"},
        {"type": "run_code", "id": "b", "script_artifact_id": "many", "result_id": "kept", "entrypoint": "go"},
        {"type": "run_code", "id": "c", "script_artifact_id": "many", "script_file": "helper.py"},
        steps.ask,
        steps.reply,
    )

    async def results(episode: Episode) -> Any:
        return dict(episode._run.results)

    assert play(in_process, bundle, InProcessEnv, results, code=code) == {"a": 1, "kept": 2, "c": 3}
    assert [(env, request.file, request.function) for env, request in seen] == [
        ("echo", "only.py", "run"),
        (None, "run.py", "go"),
        (None, "helper.py", "run"),
    ]
    first = seen[0][1].args[0]
    assert first["args"] == {"x": 1}
    assert first["results"] == {}
    assert first["env"]["mcp_url"] == first["env"]["url"] + "/mcp"
    assert seen[2][1].args[0] == {"args": {}, "results": {"a": 1, "kept": 2}}


# -- verifiers --------------------------------------------------------------------------------------------------------


def answering(rows: list[dict[str, Any]]) -> Callable[[str | None, CodeRequest], Any]:
    """Verifier code that answers these rows."""

    def code(env: str | None, request: CodeRequest) -> Any:
        return rows

    return code


def scored(in_process: Any, bundle: Build, reply: str, **options: Any) -> Outcome:
    async def run(episode: Episode) -> Outcome:
        outcome = await episode.end_turn(reply)
        assert isinstance(outcome, Outcome)
        return outcome

    outcome: Outcome = play(in_process, bundle, InProcessEnv, run, **options)
    return outcome


def test_replies_are_judged_by_needles_and_patterns(bundle: Build, steps: Any, in_process: Any) -> None:
    criteria = [
        {"type": "response_contains", "needles": ["sell", "18"], "weight": 2},
        {"type": "response_regex_present", "pattern": "^plan: .*end$"},
        {"type": "response_regex_present", "pattern": "SELL", "flags": ["IGNORECASE"]},
        {"type": "response_contains", "needles": ["sell", "never"]},
    ]
    verifier = {**steps.reply, "criteria": criteria, "score_aggregator": "weighted_average"}
    bundle.env().task(steps.deploy, steps.ask, verifier)
    outcome = scored(in_process, bundle, "plan: sell\nat 18\nend")
    assert outcome.scores == {"reply": 0.8}


def test_aggregates_join_the_rows_of_other_verifiers(bundle: Build, steps: Any, in_process: Any) -> None:
    many = [{"type": "response_contains", "needles": [word]} for word in ("a", "b", "c")]
    bundle.env().verifier("").task(
        steps.deploy,
        steps.ask,
        {**steps.reply, "criteria": many, "verifier_id": "words"},
        {**steps.grade, "id": "code"},
        {"type": "aggregate_verifiers", "id": "all", "verifier_ids": ["words", "code"]},
        {"type": "aggregate_verifiers", "id": "any", "verifier_ids": ["all"], "score_aggregator": "any_pass"},
    )
    rows: list[dict[str, Any]] = [
        {"result": False, "score": 0.5, "weight": 2},
        {"result": False, "skipped": True, "weight": 50},
    ]
    outcome = scored(in_process, bundle, "ab", code=answering(rows))
    assert outcome.scores == {"reply": 0.0, "code": 0.0, "all": 0.6, "any": 1.0}
    assert outcome.reward == 1.0  # the aggregate that no other one uses


def test_no_rows_score_zero(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().verifier("").task(steps.deploy, steps.ask, steps.grade)
    outcome = scored(in_process, bundle, "x", code=answering([]))
    assert (outcome.reward, outcome.failure) == (0.0, None)


def test_the_request_for_a_verifier(bundle: Build, steps: Any, in_process: Any) -> None:
    seen: list[CodeRequest] = []
    second = {"type": "prompt_agent", "id": "again", "prompt": "Why?"}
    bundle.env().verifier("").task(
        steps.deploy,
        steps.ask,
        second,
        {**steps.grade, "id": "last"},
        {**steps.grade, "id": "first", "prompt_id": "prompt_agent"},
        {"type": "aggregate_verifiers", "id": "both", "verifier_ids": ["last", "first"]},
    )

    def code(_: str | None, request: CodeRequest) -> Any:
        seen.append(request)
        return [{"result": True}]

    async def run(episode: Episode) -> Any:
        await episode.end_turn("one")
        return await episode.end_turn("two", timeout=5)

    assert play(in_process, bundle, InProcessEnv, run, code=code).reward == 1.0
    assert [request.file for request in seen] == ["verify.py", "verify.py"]
    assert [request.run["turns"] for request in seen] == [
        [{"number": 1, "message": "Why?", "reply": "two"}],
        [{"number": 1, "message": "Say hello.", "reply": "one"}],
    ]
    assert all(0 < request.timeout <= 5 for request in seen)
    assert all(request.args[0].startswith("http://127.0.0.1:") for request in seen)


# -- step types of plugins --------------------------------------------------------------------------------------------


def test_the_built_in_steps_are_found_through_the_hook(registry: Any) -> None:
    from agent_env.bundle.steps import BUILTIN
    from agent_env.episode.hooks import agentenv_steps

    infos = {info.name: info for info in agentenv_steps()}
    assert {name: info.model for name, info in infos.items()} == BUILTIN
    for name, info in infos.items():
        assert callable(registry.load("step", name))
        assert registry.load_string("step", name, info.model).__name__ == info.model.partition(":")[2]


def test_a_plugins_step_may_prompt_and_score(bundle: Build, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    from agent_env.bundle import load_bundle
    from agent_env.plugin import StepInfo, hookimpl
    from agent_env.plugin.step import StepModel
    from agent_env.registry import Registry
    from agent_env.testing.in_process import InProcessDeployer

    class Duel(StepModel):
        scores = True
        prompts = True
        word: str

    async def run_duel(step: Duel, episode: Any) -> None:
        first = await episode.prompt(f"Say {step.word}.", system_prompt="Obey.")
        second = await episode.prompt("Again.")
        episode.results["said"] = [first, second]
        episode.record_score(step.id, (first == step.word) / 2 + (second == step.word) / 2)

    module = ModuleType("acme_duel")
    monkeypatch.setattr(module, "Duel", Duel, raising=False)
    monkeypatch.setattr(module, "run_duel", run_duel, raising=False)
    monkeypatch.setitem(sys.modules, "acme_duel", module)

    class Hooks:
        @hookimpl
        def agentenv_steps(self) -> list[StepInfo]:
            return [StepInfo("duel", "Two words", model="acme_duel:Duel", run="acme_duel:run_duel")]

    registry = Registry({"acme:acme": Hooks()})
    bundle.env().task(steps.deploy, {"type": "deploy_agent"}, {"type": "duel", "word": "yes"}, steps.ask)
    loaded = load_bundle(bundle.path, registry)
    assert not loaded.left_out

    async def run() -> Outcome:
        deployer = InProcessDeployer({"echo": InProcessEnv})
        async with Engine(loaded, registry=registry, deployer=deployer) as engine:
            episode = engine.episode(loaded.task("all", 0))
            turn = await episode.start()
            assert (turn.prompt, turn.system_prompt) == ("Say yes.", "Obey.")
            await episode.end_turn("yes")
            await episode.end_turn("no")
            outcome = await episode.end_turn("whatever")
            assert isinstance(outcome, Outcome)
            return outcome

    assert asyncio.run(run()).scores == {"duel": 0.5}
