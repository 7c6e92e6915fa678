"""The task API: what there is to play."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from agent_env.openenv.wire import write_json
from fastapi import Body, FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from agent_env.bundle import TaskEntry
    from agent_env.openenv.server.hub import Hub

_CHUNK = 500  # entries read off the event loop at a time


class SplitQuery(BaseModel):
    """A split."""

    model_config = ConfigDict(extra="forbid", strict=True)
    split: str


class TaskQuery(SplitQuery):
    """A task of a split."""

    index: int


class RangeQuery(SplitQuery):
    """A range of a split."""

    start: int | None = None
    stop: int | None = None


def add_task_routes(app: FastAPI, hub: Hub, env_name: str) -> None:
    """Add the routes to ``app``."""

    def size(env: str, split: str) -> int:
        check_env(env)
        found = hub.bundle.splits.get(split)
        if found is None:
            names = ", ".join(hub.bundle.splits) or "none"
            raise HTTPException(400, f"unknown split {split!r}; this bundle has: {names}")
        return len(found)

    def check_env(env: str) -> None:
        if env.lower() != env_name.lower():
            raise HTTPException(404, f"unknown environment {env!r}; this server has {env_name!r}")

    @app.get("/list_environments", tags=["Task API"])
    async def list_environments() -> list[str]:
        return [env_name]

    @app.get("/{env}/splits", tags=["Task API"])
    async def splits(env: str) -> list[dict[str, str]]:
        check_env(env)
        return [{"name": split.name, "type": split.type} for split in hub.bundle.splits.values()]

    @app.post("/{env}/num_tasks", tags=["Task API"])
    async def num_tasks(env: str, query: Annotated[SplitQuery, Body()]) -> dict[str, int]:
        return {"num_tasks": size(env, query.split)}

    @app.post("/{env}/task", tags=["Task API"])
    async def task(env: str, query: Annotated[TaskQuery, Body()]) -> dict[str, Any]:
        if not 0 <= query.index < size(env, query.split):
            raise HTTPException(400, "Invalid task index")
        entry = await asyncio.to_thread(hub.bundle.entry, query.split, query.index)
        return {"task": entry_object(entry)}

    @app.post("/{env}/tasks", tags=["Task API"])
    async def tasks(env: str, query: Annotated[SplitQuery, Body()]) -> StreamingResponse:
        count = size(env, query.split)
        tail = f',"env_name":{write_json(env_name)}'
        return StreamingResponse(_listed(hub, query.split, 0, count, tail), media_type="application/json")

    @app.post("/{env}/task_range", tags=["Task API"])
    async def task_range(env: str, query: Annotated[RangeQuery, Body()]) -> StreamingResponse:
        count = size(env, query.split)
        start = 0 if query.start is None else query.start
        stop = count if query.stop is None else query.stop
        if start < 0 or stop < 0:
            raise HTTPException(400, "Invalid task index")
        return StreamingResponse(_listed(hub, query.split, start, min(stop, count), ""), media_type="application/json")


def entry_object(entry: TaskEntry) -> dict[str, Any]:
    """A task as the task API shows it."""
    return {
        "id": entry.id,
        "name": entry.name,
        "index": entry.index,
        "prompt": entry.prompt,
        "system_prompt": entry.system_prompt,
        "toolset": entry.toolset,
    }


async def _listed(hub: Hub, split: str, start: int, stop: int, tail: str) -> AsyncIterator[str]:
    """A JSON object with the tasks, written while they are read: 100,000 tasks are never in memory together."""
    yield '{"tasks":['
    if start < stop:
        entries: Iterator[TaskEntry] = hub.bundle.entries(split, start, stop)
        comma = ""
        while chunk := await asyncio.to_thread(_next_chunk, entries):
            yield comma + chunk
            comma = ","
    yield f"]{tail}}}"


def _next_chunk(entries: Iterator[TaskEntry]) -> str:
    return ",".join(write_json(entry_object(entry)) for entry in islice(entries, _CHUNK))
