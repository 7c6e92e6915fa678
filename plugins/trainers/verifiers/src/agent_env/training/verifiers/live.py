"""The open episodes of this process, by the id of the trace that they belong to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.training.verifiers.episode import Episode

    Closer = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Live:
    episode: Episode
    closers: list[Closer] = field(default_factory=list["Closer"])


_live: dict[str, _Live] = {}
_closing: set[asyncio.Task[None]] = set()


def add(trace_id: str, episode: Episode) -> None:
    """Keep ``episode`` until `close`, at the latest until the task of the rollout ends: not every rollout has a hook
    that runs in any case.
    """
    _live[trace_id] = _Live(episode)
    loop = asyncio.get_running_loop()
    owner = asyncio.current_task()

    def left(_: object) -> None:
        if trace_id in _live and not loop.is_closed():
            task = loop.create_task(close(trace_id))
            _closing.add(task)
            task.add_done_callback(_closing.discard)

    if owner is not None:
        owner.add_done_callback(left)


def also(trace_id: str, closer: Closer) -> None:
    """Call ``closer`` when the episode of the trace is closed."""
    _live[trace_id].closers.append(closer)


def get(trace_id: str) -> Episode | None:
    """The open episode of a trace."""
    kept = _live.get(trace_id)
    return None if kept is None else kept.episode


async def close(trace_id: str) -> None:
    """Close the episode of a trace, if it is open."""
    kept = _live.pop(trace_id, None)
    if kept is None:
        return
    try:
        for closer in kept.closers:
            await closer()
    finally:
        await kept.episode.close()
