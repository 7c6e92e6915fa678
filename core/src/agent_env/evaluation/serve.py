"""The bundle's server of an evaluation: one on this machine for as long as it is played, or one that runs already."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.openenv.client import BundleClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from agent_env.evaluation.plan import EvalPlan


@dataclass(frozen=True, slots=True)
class Server:
    """A server to play against.

    Attributes:
        url: its address.
        bundle: name of its bundle.
        prepared: returns when its envs are built.
        left_out: tasks that it cannot play, and why.
    """

    url: str
    bundle: str
    prepared: Callable[[], Awaitable[object]]
    left_out: Sequence[str] = ()


@asynccontextmanager
async def server_of(plan: EvalPlan) -> AsyncGenerator[Server]:
    """The server that ``plan`` names, or one for its bundle.

    Raises:
        AgentEnvError: it cannot be reached, or the bundle cannot be served.
    """
    if plan.url is not None:
        async with BundleClient(plan.url, token=plan.server_token) as client:
            await client.health()
            name = str((await client.metadata()).get("name") or "bundle")
        yield Server(plan.url, name, _nothing)
        return
    assert plan.bundle is not None
    from agent_env.openenv import build_app
    from agent_env.openenv.run import running_server

    app = build_app(
        plan.bundle,
        reward=plan.reward,
        sandbox=plan.sandbox,
        sandbox_options=plan.sandbox_options or None,
        max_concurrent_envs=plan.concurrency,
        registry=plan.registry,
        progress=plan.on_progress,
    )
    async with running_server(app) as url:
        served = app.state.engine.bundle
        yield Server(url, served.name, app.state.engine.prepared, tuple(str(one) for one in served.left_out))


async def _nothing() -> None:
    """A server of its own prepares its envs itself."""


async def read_tasks(plan: EvalPlan, server: Server) -> tuple[str, list[dict[str, Any]]]:
    """The split that is played and its tasks.

    Raises:
        UsageError: there is no such split, or it is empty.
    """
    async with BundleClient(server.url, token=plan.server_token) as client:
        names = [name for name, _ in await client.splits()]
        split = plan.split or ("eval" if "eval" in names else "all")
        if split not in names:
            raise UsageError(f"bundle {server.bundle!r} has no split {split!r}; it has: {', '.join(names)}")
        stop = await client.num_tasks(split)
        if plan.limit is not None:
            stop = min(stop, plan.limit)
        tasks = [task async for task in client.tasks(split, 0, stop)]
    _tell_apart(tasks)
    if not tasks:
        raise UsageError(f"the split {split!r} of bundle {server.bundle!r} holds no task")
    return split, tasks


def _tell_apart(tasks: list[dict[str, Any]]) -> None:
    """Give a task that its split names twice a name of its own."""
    seen: set[str] = set()
    for task in tasks:
        name = str(task["name"])
        if name in seen:
            task["name"] = name = f"{name}#{task['index']}"
        seen.add(name)
