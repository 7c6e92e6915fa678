"""The taskset: the tasks of a split, read from the bundle's server or from a file of rows."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc"

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.training.verifiers.read import read_file, read_server
from agent_env.training.verifiers.task import BundleData, BundleTask

import verifiers.v1 as vf  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Iterator


class BundleTasksetConfig(vf.TasksetConfig):
    """Which tasks, and the bounds of their episodes (seconds); with ``rows`` all of it stands in the file."""

    url: str | None = None
    """Address of the bundle's server."""
    split: str = "train"
    rows: Path | None = None
    """A file that ``agentenv rows verifiers`` wrote, instead of ``url`` and all below."""
    token_var: str | None = None
    """Name of the environment variable with the server's token."""
    seed: int | None = None
    """For tasks with a ``<seed>`` placeholder."""
    max_turns: int = 4
    """Replies of the model; after the last one its calls are played and the episode is scored."""
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    """Getting an episode, waiting in line included; also each turn's end with its verifiers."""
    model_timeout: float = 600.0
    parser: str | None = None
    """A tool-call parser of ours, for an engine that parses no calls."""


class BundleTaskset(vf.Taskset[BundleTask, BundleTasksetConfig]):
    """The tasks of one split, in the bundle's order: the place in the split is verifiers' ``idx``."""

    def load(self) -> Iterator[BundleTask]:
        """Read the tasks, page by page."""
        config: Any = self.config
        if (config.url is None) == (config.rows is None):  # not in the config: verifiers makes an empty one first
            raise UsageError(
                "set either `env.taskset.url`, the address of a bundle's server, or `env.taskset.rows`, a file of rows"
            )
        if config.rows is not None:
            rows = read_file(config.rows)
        else:
            rows = read_server(config.url, config.split, token_var=config.token_var)
        own = {} if config.rows is not None else _settings(config)
        for row in rows:
            yield BundleTask(BundleData.model_validate({**row, **own}), config.task)


def _settings(config: Any) -> dict[str, Any]:
    names = ("token_var", "seed", "max_turns", "tool_timeout", "reset_timeout", "model_timeout", "parser")
    return {name: getattr(config, name) for name in names}
