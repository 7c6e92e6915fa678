"""What an import must not bring along: the client side lives in a trainer's image, and `agentenv` starts fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_env import plugin
from agent_env.plugin import hookspecs
from agent_env.registry.kinds import HOOKS

ROOT = Path(__file__).resolve().parents[1]

SERVER = {"fastapi", "starlette", "uvicorn", "uvloop", "httptools"}
CLIENT = {"httpx", "websockets", "pydantic"}
SHELL = {"click", "rich"}
TESTS = {"pytest", "hypothesis", "openenv", "mcp"}

FORBIDDEN = {
    "agent_env.errors": SERVER | CLIENT | SHELL | TESTS | {"pluggy", "asyncio"},
    "agent_env.plugin": SERVER | CLIENT | SHELL | TESTS | {"asyncio"},
    "agent_env.plugin.reward": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.plugin.sandbox": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.plugin.parser": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.plugin.trainer": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.registry": SERVER | CLIENT | SHELL | TESTS | {"asyncio"},
    "agent_env.bundle": SERVER | {"httpx", "websockets"} | SHELL | TESTS,
    "agent_env.env": SERVER | CLIENT | SHELL | TESTS | {"pluggy"},
    "agent_env.openenv": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.openenv.client": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.rollout": SERVER | CLIENT | SHELL | TESTS,
    "agent_env.training.miles.agent": SERVER | CLIENT | SHELL | TESTS | {"miles", "torch"},
    "agent_env.cli.main": SERVER | CLIENT | {"rich", "asyncio"} | TESTS,
    "agent_env.cli.hooks": SERVER | CLIENT | SHELL | TESTS | {"asyncio"},
    "agent_env.testing": SERVER | CLIENT | SHELL | TESTS,
}


def loaded_by(module: str) -> set[str]:
    """Names of all modules in a fresh interpreter after an import."""
    code = f"import json, sys, {module}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", FORBIDDEN)
def test_an_import_stays_light(module: str) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert sorted(FORBIDDEN[module] & loaded) == []


def hook_modules() -> list[str]:
    """The hook modules of the core and every plugin."""
    files = [*ROOT.glob("core/src/agent_env/*/hooks.py"), *ROOT.glob("plugins/*/*/src/agent_env/*/*/hooks.py")]
    return sorted(".".join(file.with_suffix("").parts[file.parts.index("src") + 1 :]) for file in files)


@pytest.mark.parametrize("module", hook_modules())
def test_a_hook_module_imports_the_plugin_api_alone(module: str) -> None:
    own = {module.rpartition(".")[0], module}
    loaded = {name for name in loaded_by(module) if name.startswith("agent_env.")}
    extra = {name for name in loaded - loaded_by("agent_env.plugin") if name not in own and not _parent(name, module)}
    assert extra == set()


def _parent(name: str, module: str) -> bool:
    return module.startswith(f"{name}.")


def test_the_check_finds_what_is_loaded() -> None:
    assert {"pydantic", "agent_env.plugin.step"} <= loaded_by("agent_env.plugin.step")
    assert len(hook_modules()) >= 6


def test_hooks_infos_and_kinds_agree() -> None:
    specs = {name: value for name, value in vars(hookspecs).items() if name.startswith("agentenv_")}
    assert set(specs) == set(HOOKS)
    for name, function in specs.items():
        info = HOOKS[name].info
        assert function.__annotations__ == {"return": f"list[{info.__name__}]"}
        assert getattr(plugin, info.__name__) is info
        assert info.__name__ in plugin.__all__
