"""What a server offers: the tasks of the splits to train and evaluate on, and the tools of each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.rows.toolsets import Toolsets
from agent_env.training.trl.rows import environment_name, prompt_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.openenv.client import BundleClient
    from agent_env.training.trl.episode import Bounds


@dataclass(slots=True)
class Offer:
    """What was found.

    Attributes:
        rows: rows by split, as columns of a dataset.
        tools: OpenAI function schemas by environment name.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    tools: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])


async def discover(
    url: str, splits: Sequence[str], *, token: str | None, bounds: Bounds, limit: int | None, prefix: str
) -> Offer:
    """Read the tasks of ``splits`` and start one task of each toolset to list its tools.

    Raises:
        AgentEnvError: the server cannot be reached, or a task cannot be started.
    """
    from agent_env.openenv.client import BundleClient

    settings = RowSettings(tool_timeout=bounds.tool_timeout, reset_timeout=bounds.reset_timeout)
    toolsets = Toolsets(url, token, settings)
    offer = Offer()
    async with BundleClient(url, token=token) as client:
        for split in dict.fromkeys(splits):
            total = await client.num_tasks(split)
            stop = total if limit is None else min(limit, total)
            rows = offer.rows.setdefault(split, [])
            async for task in client.tasks(split, 0, stop):
                tools = await toolsets.tools(split, task)
                name = environment_name(tools, prefix)
                if name not in offer.tools:
                    offer.tools[name] = json.loads(tools)
                rows.append(
                    {
                        "prompt": prompt_of(task),
                        "split": split,
                        "index": int(task["index"]),
                        "task_id": str(task["id"]),
                        "environment": name,
                    }
                )
            if not rows:
                raise UsageError(f"split {split!r} of {url} has no tasks")
    return offer


async def choose_splits(
    url: str, train: str | None, evaluation: str | None, *, token: str | None
) -> tuple[str, str | None]:
    """The split to train on and the one to evaluate on.

    Raises:
        UsageError: the server has no split of a name that was asked for; it lists those there are.
    """
    from agent_env.openenv.client import BundleClient

    async with BundleClient(url, token=token) as client:
        await client.health()
        splits = dict(await _splits(client))
    for name in (train, evaluation):
        if name is not None and name not in splits:
            raise UsageError(f"{url} has no split {name!r}; it has: {', '.join(splits)}")
    if train is None:
        typed = [name for name, kind in splits.items() if kind == "train" and name != "all"]
        train = "train" if "train" in splits else next(iter(typed), "all")
    if evaluation is None and train != "eval":
        evaluation = "eval" if "eval" in splits else None
    return train, evaluation


async def _splits(client: BundleClient) -> list[tuple[str, str]]:
    splits = await client.splits()
    if not splits:
        raise UsageError("the server serves no split")
    return splits
