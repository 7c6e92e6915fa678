"""Play a bundle as a trainer would, without a GPU: the server, the rows and the trainer's own functions are real, the
model is a Python function.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings
from agent_env.testing.policies import CheckedPolicy
from agent_env.testing.rehearsal_report import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from agent_env.bundle import Bundle
    from agent_env.plugin.trainer import TrainerAdapter
    from agent_env.registry import Registry

MOST_EPISODES_AT_ONCE = 32


async def rehearse(
    bundle: str | Path,
    reply: Callable[..., dict[str, Any]],
    *,
    trainer: str = "miles",
    split: str | None = None,
    groups: int = 4,
    samples: int = 8,
    session: str | None = None,
    rows: RowSettings | None = None,
    reward: str | Callable[..., Any] | None = None,
    sandbox: str | None = None,
    warm: int = 0,
    sandbox_options: Mapping[str, Mapping[str, str]] | None = None,
    max_concurrent_envs: int | None = None,
    registry: Registry | None = None,
    policy: str | None = None,
    on_event: Callable[[RehearsalSample | RehearsalGroup], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Rehearsal:
    """Serve ``bundle`` on this machine and play the first ``groups`` tasks of a split ``samples`` times each.

    Args:
        bundle: the bundle's folder.
        reply: the stand-in model, ``reply(messages, tools) -> assistant message``.
        trainer: name of an installed trainer adapter.
        split: split to play; default ``eval`` where the bundle has it, else ``all``.
        groups: tasks to play; fewer when the split is smaller.
        samples: episodes for each task.
        session: the adapter's session kind, such as ``v1`` or ``v2`` for Miles.
        rows: settings of the rows.
        reward: as in `agent_env.openenv.build_app`.
        sandbox: name of the sandbox provider; default the embedded one.
        warm: ready envs to keep for each env that tasks deploy.
        sandbox_options: options by provider name.
        max_concurrent_envs: episodes at once; further ones wait in line.
        registry: plugins; default those installed.
        policy: name of ``reply`` for messages.
        on_event: called with every sample and every group as it ends.
        on_progress: called with lines on the server's start and the builds of envs.

    Raises:
        UsageError: the policy returned what is no assistant message.
        AgentEnvError: the bundle cannot be read or served, or the rows cannot be written. An episode that fails does
            not raise: it is a sample with a failure.
    """
    from agent_env.openenv import build_app
    from agent_env.openenv.run import running_server
    from agent_env.registry import default_registry

    watching = asyncio.current_task()
    loop = asyncio.get_running_loop()
    checked = CheckedPolicy(
        reply, policy or str(getattr(reply, "__name__", "reply")), lambda: loop.call_soon_threadsafe(_cancel, watching)
    )
    plugins = registry or default_registry()
    adapter: TrainerAdapter = plugins.load("trainer", trainer)()
    at_once = max_concurrent_envs or max(1, min(MOST_EPISODES_AT_ONCE, groups * samples))
    app = build_app(
        bundle,
        reward=reward,
        sandbox=sandbox,
        sandbox_options=sandbox_options,
        warm=warm,
        max_concurrent_envs=at_once,
        registry=plugins,
        progress=on_progress,
    )
    served: Bundle = app.state.engine.bundle
    name = choose_split(served, split)
    ended: list[RehearsalGroup] = []
    wanted = rows or RowSettings()
    seconds = 0.0
    try:
        async with running_server(app) as url:
            plan = RehearsalPlan(
                url=url,
                split=name,
                groups=min(groups, len(served.splits[name])),
                samples=samples,
                reply=checked,
                session=session,
                rows=wanted,
            )
            await app.state.engine.prepared()  # a build is no part of the first episode's deploy
            began = time.perf_counter()
            async for event in adapter.rehearse(plan):
                if isinstance(event, RehearsalGroup):
                    ended.append(event)
                if on_event is not None:
                    on_event(event)
            seconds = time.perf_counter() - began
    except asyncio.CancelledError:
        if checked.mistake is None or watching is None or watching.uncancel() > 0:
            raise
    if checked.mistake is not None:
        raise checked.mistake
    return Rehearsal(
        trainer=trainer,
        bundle=served.name,
        split=name,
        groups=ended,
        seconds=seconds,
        left_out=served.left_out,
        asked=groups,
        remarks=app.state.engine.remarks,
    )


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()


def choose_split(bundle: Bundle, split: str | None) -> str:
    """The split to play.

    Raises:
        UsageError: the bundle has none of that name.
    """
    if split is None:
        return "eval" if "eval" in bundle.splits else "all"
    if split not in bundle.splits:
        raise UsageError(f"bundle {bundle.name!r} has no split {split!r}; it has: {', '.join(bundle.splits)}")
    return split
