"""A small bundle, and serving it on this machine with envs inside the process: what trainer and step checks play.

The bundle's env ``room`` has the tools ``look`` and ``die``. A task asks one question; the scoring step ``word`` is 1
when the answer holds ``xyzzy``.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent_env.plugin.tools import ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.registry import Registry

WORD: Final = "xyzzy"
ENV: Final = "room"
_NOTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def make_room() -> InProcessEnv:
    """A fresh env."""
    env = InProcessEnv(ENV)

    def die(arguments: Mapping[str, Any]) -> str:
        del arguments
        env.gone = "exit code -9"
        return ""

    env.tools = {"look": lambda _: f"on the wall stands the word {WORD}", "die": die}
    env.specs = (ToolSpec("look", "Look around.", _NOTHING), ToolSpec("die", "The env dies.", _NOTHING))
    return env


def contains(step: str, needle: str) -> dict[str, Any]:
    """A scoring step: 1 when the reply holds ``needle``, else 0."""
    return {
        "id": step,
        "type": "agent_prompt_response_verifier",
        "prompt_id": "question",
        "criteria": [{"type": "response_contains", "needles": [needle]}],
    }


def ask(prompt: str) -> list[dict[str, Any]]:
    """The steps of a task up to its one question."""
    return [
        {"id": "deploy", "type": "deploy_env", "env_id": ENV},
        {"id": "agent", "type": "deploy_agent", "env_ids": [ENV]},
        {"id": "ask", "type": "prompt_agent", "prompt": prompt, "prompt_id": "question"},
    ]


def write_bundle(
    folder: Path,
    tasks: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    evals: Mapping[str, Sequence[str]] | None = None,
    envs: Sequence[str] = (ENV,),
) -> Path:
    """Write a bundle: tasks by name, evals as lists of tasks by name. Its envs hold nothing: they run in process."""
    for env in envs:
        (folder / "envs" / env).mkdir(parents=True)
        (folder / "envs" / env / "Dockerfile").write_text('FROM python:3.11\nCMD ["python", "server.py"]\n', "utf-8")
    (folder / "tasks").mkdir(parents=True)
    for name, steps in tasks.items():
        (folder / "tasks" / f"{name}.json").write_text(json.dumps(list(steps)), "utf-8")
    for name, members in (evals or {}).items():
        (folder / "evals").mkdir(exist_ok=True)
        (folder / "evals" / f"{name}.toml").write_text(f'type = "eval"\ntasks = {json.dumps(list(members))}\n', "utf-8")
    return folder


def small_bundle(folder: Path, *, tasks: int = 2) -> Path:
    """Write the small bundle: the splits ``all``, ``train`` with all tasks, and ``eval`` with the first."""
    names = [f"find-{number}" for number in range(tasks)]
    steps = {name: [*ask(f"Which word is in room {name}?"), contains("word", WORD)] for name in names}
    return write_bundle(folder, steps, evals={"train": names, "eval": names[:1]})


@dataclass(frozen=True, slots=True)
class Served:
    """A served bundle: its address, and what its envs are."""

    url: str
    deployer: InProcessDeployer

    async def quiet(self, timeout: float = 10.0) -> None:
        """Wait until no env lives.

        Raises:
            TimeoutError: one still does after ``timeout`` seconds.
        """
        async with asyncio.timeout(timeout):
            while any(not env.closed for env in self.deployer.deployed):  # noqa: ASYNC110 - the deployer counts them
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serve_in_process(
    bundle: Path,
    envs: Mapping[str, Callable[[], InProcessEnv]] | None = None,
    *,
    registry: Registry | None = None,
    reward: Any = None,
    wrap: Callable[[Any], Any] | None = None,
    **options: Any,
) -> AsyncGenerator[Served]:
    """Serve ``bundle`` with a real server on a free port.

    Args:
        bundle: the bundle's folder.
        envs: makes an env, by its name; default the room.
        registry: plugins; default those installed.
        reward: as in `agent_env.openenv.build_app`.
        wrap: makes another ASGI application of the server's, to break it on purpose.
        options: further options of `agent_env.openenv.build_app`, such as ``token``.
    """
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine
    from agent_env.openenv import build_app
    from agent_env.openenv.run import running_server

    deployer = InProcessDeployer(envs or {ENV: make_room})
    loaded = load_bundle(bundle, registry)
    app = build_app(loaded, engine=Engine(loaded, registry=registry, reward=reward, deployer=deployer), **options)
    if wrap is not None:
        app.add_middleware(_Wrapped, wrap=wrap)
    async with running_server(app) as url:
        yield Served(url, deployer)


class _Wrapped:
    """An ASGI middleware from a function."""

    def __init__(self, app: Any, wrap: Callable[[Any], Any]) -> None:
        self._app = wrap(app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
