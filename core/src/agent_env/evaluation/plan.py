"""What `agent_env.evaluation.run.evaluate` is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from agent_env.evaluation.record import EpisodeRecord
    from agent_env.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """An evaluation; times in seconds. Fields named as in `EvalSettings` mean the same.

    Attributes:
        bundle: folder to serve on this machine, or `None` with ``url``.
        url: address of a bundle's server that runs already.
        server_token: that server's token.
        key: the chat endpoint's key.
        out: folder of the run; `None` = one below ``eval-runs`` that is named after the settings.
        split: `None` = ``eval`` where the bundle has it, else ``all``.
        limit: play the first tasks of the split only.
        reward: as in `agent_env.openenv.build_app`.
        reward_name: how ``reward`` is written down.
        concurrency: episodes at once.
        retries: further attempts for an episode that failed for a passing reason.
        retry_failed: play again what failed when the run was started before.
        moved: continue a run whose endpoint had another address; needs ``out``.
        model_retries: further attempts for a reply.
        max_total_tokens: tokens of the whole run after which no episode is started.
        stop_after_failures: failures one after another at which the run stops; 0 = never.
        registry: plugins; `None` = those installed.
        on_start: called with episodes in all and the records that there are already.
        on_episode: called with every record as it is written.
        on_progress: called with lines on the server's start.
    """

    bundle: Path | None = None
    url: str | None = None
    server_token: str | None = None
    base_url: str
    model: str
    key: str | None = None
    out: Path | None = None
    split: str | None = None
    limit: int | None = None
    k: int = 1
    concurrency: int = 8
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    task_seed: int = 0
    parser: str | None = None
    reward: str | Callable[..., Any] | None = None
    reward_name: str | None = None
    sandbox: str | None = None
    sandbox_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, "Mapping[str, str]"])
    max_turns: int = 16
    max_episode_tokens: int | None = None
    max_total_tokens: int | None = None
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    model_timeout: float = 600.0
    retries: int = 1
    retry_failed: bool = False
    moved: bool = False
    model_retries: int = 6
    stop_after_failures: int = 20
    pass_at: float = 1.0
    registry: Registry | None = None
    on_start: Callable[[int, list[EpisodeRecord]], None] | None = None
    on_episode: Callable[[EpisodeRecord], None] | None = None
    on_progress: Callable[[str], None] | None = None

    def __repr__(self) -> str:
        return f"EvalPlan({self.url or self.bundle}, {self.model!r} at {self.base_url})"

    def check(self) -> None:
        """Say what makes no sense.

        Raises:
            UsageError: with the mend.
        """
        if (self.bundle is None) == (self.url is None):
            raise UsageError("name a BUNDLE to serve here, or --url of a server that runs already, not both")
        if self.url is not None and (self.reward is not None or self.sandbox is not None or self.sandbox_options):
            raise UsageError("--reward, --sandbox and --sandbox-option belong to the server that --url names")
        if self.moved and self.out is None:
            raise UsageError("--moved needs --out: the folder's default name is made of the address, too")
        for name in ("k", "concurrency", "max_turns"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        for name in ("tool_timeout", "reset_timeout", "model_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} must be seconds above 0")
        for name, value in {**self.sampling, "pass_at": self.pass_at}.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{name} must be a finite number, not {value}")
