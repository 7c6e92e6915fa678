"""Writes the row files of a served bundle in a trainer's format."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agent_env.errors import UsageError
from agent_env.rollout.rows.files import RowFiles
from agent_env.rollout.rows.toolsets import Toolsets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.openenv.client import BundleClient
    from agent_env.plugin.trainer import RowSettings

    Progress = Callable[[str, int, int], None]

_BATCH = 1000


class RowFormat(Protocol):
    """Words a row; called once for each, so it should be cheap."""

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """The row as one line of JSON without its end.

        Args:
            split: name of the split.
            task: ``id, name, index, prompt, system_prompt``.
            tools: JSON text of the task's tools.
        """
        ...


async def write_row_files(
    url: str,
    out: Path,
    settings: RowSettings,
    row: RowFormat,
    *,
    progress: Progress | None = None,
    only: Mapping[str, int] | None = None,
) -> list[Path]:
    """Write ``<split>.jsonl`` for every split.

    Args:
        url: address of the bundle's server.
        out: folder of the files; made when it is missing.
        settings: for the token and the deadlines.
        row: words a row.
        progress: called now and then with split, rows done and rows in all.
        only: write these splits alone, as many rows of each at most.

    Returns:
        The files, in the order of their names.

    Raises:
        AgentEnvError: one clear line; no file was written or replaced then.
    """
    from agent_env.openenv.client import BundleClient

    token = check_settings(url, settings)
    async with BundleClient(url, token=token) as client:
        await client.health()
        names = sorted(name for name, _ in await client.splits())
        if only is not None:
            names = [name for name in names if name in only]
        for name in names:
            _check_name(name)
        toolsets = Toolsets(url, token, settings)
        with RowFiles(out) as files:
            for name in names:
                await asyncio.to_thread(files.start, name)
                limit = None if only is None else only[name]
                async for batch in _batches(client, toolsets, name, row, progress, limit):
                    await asyncio.to_thread(files.write, batch)
    return [out / f"{name}.jsonl" for name in names]


async def _batches(
    client: BundleClient,
    toolsets: Toolsets,
    split: str,
    row: RowFormat,
    progress: Progress | None,
    limit: int | None,
) -> AsyncIterator[bytes]:
    total = await client.num_tasks(split)
    if limit is not None:
        total = min(total, limit)
    lines: list[str] = []
    done = 0
    if progress is not None:
        progress(split, 0, total)
    async for task in client.tasks(split, 0, total):
        lines.append(row(split, task, await toolsets.tools(split, task)))
        if len(lines) == _BATCH:
            done += len(lines)
            yield _encode(lines)
            lines = []
            if progress is not None:
                progress(split, done, total)
    yield _encode(lines)
    if progress is not None:
        progress(split, done + len(lines), total)
    if done + len(lines) != total:
        raise UsageError(
            f"the server gave {done + len(lines)} of {total} tasks of split {split!r}; write the rows again"
        )


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def check_settings(url: str, settings: RowSettings) -> str | None:
    """Check what rows would carry; returns the token.

    Raises:
        UsageError: the address holds a password, a number is out of range, the token's variable is not set.
    """
    parts = urlsplit(url if "://" in url else f"//{url}")
    if parts.username is not None or parts.password is not None:
        raise UsageError("the address holds a user name or password, which rows must not: use --token-var NAME")
    if settings.max_turns < 1:
        raise UsageError(f"max_turns must be at least 1, got {settings.max_turns}")
    for key in ("tool_timeout", "reset_timeout", "model_timeout"):
        value: float = getattr(settings, key)
        if not 0 < value < float("inf"):
            raise UsageError(f"{key} must be seconds above 0, got {value}")
    if settings.token_var is None:
        return None
    token = os.environ.get(settings.token_var)
    if not token:
        raise UsageError(f"the environment variable {settings.token_var} (--token-var) is not set")
    return token


def _check_name(split: str) -> None:
    if not split or split.startswith(".") or any(char in split for char in "/\\\0"):
        raise UsageError(f"the split {split!r} cannot name a file")
