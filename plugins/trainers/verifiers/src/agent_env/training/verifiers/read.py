"""Reading rows without an event loop of the caller's: verifiers iterates a taskset synchronously, anywhere."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agent_env.errors import UsageError
from agent_env.openenv.client import BundleClient
from agent_env.training.verifiers.play import read_token
from agent_env.training.verifiers.rows import row_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

_PAGE = 1000
_T = TypeVar("_T")


def read_file(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file.

    Raises:
        UsageError: it cannot be read, or a line is no row.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield _row(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read rows from {path}: {error}") from error


def read_server(url: str, split: str, *, token_var: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a split, without settings.

    Raises:
        AgentEnvError: the server cannot be reached, has no such split or refuses the token.
    """
    token = read_token(token_var)
    total = _run(partial(_count, url, split, token))
    for start in range(0, total, _PAGE):
        stop = min(total, start + _PAGE)
        yield from _run(partial(_page, url, split, token, start, stop))


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{path}:{number} is no JSON: {error}") from error
    if not isinstance(row, dict) or "url" not in row:
        raise UsageError(f"{path}:{number} is no row of ours: write rows with `agentenv rows verifiers URL OUT`")
    return cast("dict[str, Any]", row)


async def _count(url: str, split: str, token: str | None) -> int:
    async with BundleClient(url, token=token) as client:
        names = [name for name, _ in await client.splits()]
        if split not in names:
            raise UsageError(f"{url} has no split {split!r}; it has {', '.join(names)}")
        return await client.num_tasks(split)


async def _page(url: str, split: str, token: str | None, start: int, stop: int) -> list[dict[str, Any]]:
    async with BundleClient(url, token=token) as client:
        return [row_fields(url, split, task) async for task in client.tasks(split, start, stop)]


def _run(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run it in a thread of its own: the caller may sit on an event loop."""
    with ThreadPoolExecutor(1, thread_name_prefix="agentenv-rows") as pool:
        return pool.submit(lambda: asyncio.run(work())).result()
