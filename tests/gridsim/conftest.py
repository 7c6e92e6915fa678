"""The parts of the GridSim bundle, loaded from their files as the engine and the rehearsal load them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BUNDLE = Path(__file__).resolve().parents[2] / "examples" / "gridsim"


def load(file: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def bundle_path() -> Path:
    return BUNDLE


@pytest.fixture(scope="session")
def market() -> Any:
    return load(BUNDLE / "envs" / "gridsim" / "market.py", "gridsim_market_under_test")


@pytest.fixture(scope="session")
def policies() -> Any:
    return load(BUNDLE / "policies.py", "gridsim_policies_under_test")


@pytest.fixture(scope="session")
def generate() -> Any:
    return load(BUNDLE / "generate.py", "gridsim_generate_under_test")


@pytest.fixture(scope="session")
def verifier() -> Any:
    return load(BUNDLE / "artifacts" / "grade" / "verify.py", "gridsim_verify_under_test")


@pytest.fixture(scope="session")
def env_module() -> Any:
    """The env's server file; it imports ``market`` from its own folder, as it does when it is started there."""
    folder = str(BUNDLE / "envs" / "gridsim")
    sys.path.insert(0, folder)
    try:
        return load(Path(folder) / "server.py", "gridsim_server_under_test")
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    text = (BUNDLE / "tasks" / "day.seeds.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def eval_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["id"].startswith("eval-")]


@dataclass
class Played:
    """A conversation of a policy with the env's object, and how the env graded it."""

    graded: dict[str, Any]
    messages: list[dict[str, Any]]
    turns: int = 0
    answers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@pytest.fixture(scope="session")
def play_policy(env_module: Any) -> Callable[[Any, dict[str, Any]], Played]:
    """Plays a policy on a row's day as the rollout does: at most four replies, each call answered in its order."""

    from agent_env.env.exceptions import ToolError
    from agent_env.env.spec import spec_of

    handlers = {handler.name: handler for handler in spec_of(env_module.GridSim).tools}
    names = [*handlers, "end_turn"]
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": name}} for name in names]

    async def answer(env: Any, name: str, raw: str) -> str:
        try:
            arguments: Any = json.loads(raw)
        except ValueError:
            return "not JSON"
        if not isinstance(arguments, dict):
            return "not an object"
        if name not in handlers:
            return "unknown tool"
        keywords, problems = handlers[name].signature.read(cast("dict[str, Any]", arguments))
        if problems:
            return "; ".join(problems)
        try:
            return json.dumps(await getattr(env, handlers[name].attribute)(**keywords))
        except ToolError as error:
            return str(error)

    async def converse(policy: Any, row: dict[str, Any]) -> Played:
        env = env_module.GridSim()
        await env.load_day(row["day"])
        played = Played({}, [{"role": "system", "content": "x"}, {"role": "user", "content": row["situation"]}])
        over = False
        while not over and played.turns < 4:
            played.turns += 1
            before = json.dumps(played.messages)
            message = policy(played.messages, tools)
            assert json.dumps(played.messages) == before, "a policy must not change the conversation"
            assert policy(played.messages, tools) == message, "a policy is a function of the conversation"
            played.messages.append(message)
            for call in message.get("tool_calls", []):
                name, raw = call["function"]["name"], call["function"]["arguments"]
                over = over or name == "end_turn"
                text = "" if over else await answer(env, name, raw)
                played.answers.setdefault(name, []).append(text)
                played.messages.append({"role": "tool", "content": text})
            over = over or not message.get("tool_calls")
        assert over, "the policy did not end its turn within four replies"
        played.graded = (await env.grade())[0]["data"]
        return played

    return lambda policy, row: asyncio.run(converse(policy, row))
