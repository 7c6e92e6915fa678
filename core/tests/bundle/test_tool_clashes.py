"""Tool names that clash are refused before anything is played, where the envs' source says them."""

from __future__ import annotations

from typing import Any

import pytest
from agent_env.bundle import load_bundle

ONE = """
from agent_env.env import Env, tool
class One(Env, name="one"):
    @tool
    def move(self) -> str: return ""
    @tool(name="turn_left")
    async def left(self) -> str: return ""
    @tool(hidden_by_default=True)
    def secret(self) -> str: return ""
    def helper(self) -> str: return ""
"""
TWO = """
import agentenv_protocol as sdk
@sdk.environment_card(name="two")
class Two:
    @sdk.tool()
    def turn_left(self) -> str: return ""
    @sdk.tool(name="{environment_name}_move")
    def move(self) -> str: return ""
    @sdk.tool()
    def secret(self) -> str: return ""
"""
BASH = ONE.replace("move", "bash")
RESERVED = ONE.replace("move", "reset")
MANY = ONE + ONE.replace("One(", "Other(")

ACCESS = {
    "id": "x",
    "type": "modify_env_tool_access",
    "env_id": "one",
    "action": "disable",
    "role": "r",
    "tools": ["t"],
}
SHELL = {"id": "x", "type": "run_code", "script_artifact_id": "check", "agent_name": "default-agent"}


def task(*extra: dict[str, Any], **agent: Any) -> list[dict[str, Any]]:
    return [
        {"id": "a", "type": "deploy_env", "env_id": "one"},
        {"id": "b", "type": "deploy_env", "env_id": "two"},
        *extra,
        {"id": "agent", "type": "deploy_agent", **agent},
        {"id": "ask", "type": "prompt_agent", "prompt": "x"},
        {"id": "grade", "type": "env_outcome_verifier", "env_id": "one", "file_artifact_id": "check"},
    ]


CASES: dict[str, tuple[str, str, list[dict[str, Any]], str | None]] = {
    "clash": (
        ONE,
        TWO,
        task(),
        "the tool 'turn_left' is offered by the env 'two' of the step 'b' and by the env 'one'",
    ),
    "both named": (ONE, TWO, task(env_ids=["one", "two"]), "'turn_left'"),
    "one of them unseen": (ONE, TWO, task(env_ids=["one"]), None),
    "one of them unseen, by step": (ONE, TWO, task(env_step_id="b"), None),
    "access is changed": (ONE, TWO, task(ACCESS), None),
    "not sure which class": (MANY, TWO, task(), None),
    "no source": ("print()", TWO, task(), None),
    "reserved": (RESERVED, "", task(), "a tool 'reset', a name that the wire uses itself"),
    "bash is free": (BASH, "", task(), None),
    "bash is taken": (BASH, "", [*task()[:3], SHELL, *task()[3:]], "by the agent's sandbox"),
}


@pytest.mark.parametrize("case", CASES)
def test_clashes(write: Any, case: str) -> None:
    one, two, steps, words = CASES[case]
    folder = write(
        {
            "envs/one/Dockerfile": "FROM scratch",
            "envs/one/server.py": one,
            "envs/two/Dockerfile": "FROM scratch",
            "envs/two/server.py": two,
            "tasks/two.json": steps,
        }
    )

    bundle = load_bundle(folder)

    assert ("two" in bundle.templates) == (words is None)
    if words is not None:
        assert words in str(bundle.left_out[0])
        assert len(bundle.left_out) == 1


def test_one_env_deployed_twice_clashes_with_itself(write: Any) -> None:
    steps = task(env_step_id="a")
    steps[1]["env_id"] = "one"
    steps[-1] = {
        "id": "says",
        "type": "agent_prompt_response_verifier",
        "prompt_id": "ask",
        "criteria": [{"type": "response_contains", "needles": ["x"]}],
    }
    both = [{**step} for step in steps]
    del both[2]["env_step_id"]
    folder = write(
        {
            "envs/one/Dockerfile": "FROM scratch",
            "envs/one/server.py": ONE,
            "tasks/single.json": steps,
            "tasks/both.json": both,
        }
    )

    bundle = load_bundle(folder)

    assert set(bundle.templates) == {"play", "single"}
    assert {problem.step for problem in bundle.left_out} == {"b"}
