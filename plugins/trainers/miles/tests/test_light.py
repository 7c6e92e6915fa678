"""What the trainer's process loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["httpx", "websockets", "pydantic", "fastapi", "uvicorn", "starlette", "rich", "click", "agent_env.registry"]
SERVER = ["fastapi", "uvicorn", "starlette", "agent_env.openenv.app", "agent_env.episode", "agent_env.bundle", "miles"]


def loaded(code: str, names: list[str]) -> str:
    program = f"{code}\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_functions_that_miles_loads_are_light() -> None:
    assert loaded("import agent_env.training.miles.agent", HEAVY + SERVER) == "[]"


@pytest.mark.parametrize("module", ["adapter", "__main__", "hooks"])
def test_nothing_of_the_server_is_loaded(module: str) -> None:
    assert loaded(f"import agent_env.training.miles.{module}", SERVER) == "[]"


def test_a_rollout_loads_nothing_of_the_server() -> None:
    code = (
        "import asyncio\n"
        "from agent_env.training.miles import agent\n"
        "own = {'url': 'http://127.0.0.1:9', 'reset_timeout': 0.2}\n"
        "row = {'split': 'train', 'index': 0, 'tools': [], 'agentenv': own}\n"
        "print(asyncio.run(agent.run('http://x', [{'role': 'user', 'content': 'Go.'}], {}, row))['agentenv_failure'])"
    )
    lines = loaded(code, SERVER).splitlines()
    assert lines[0].startswith("server: ")
    assert lines[1] == "[]"
