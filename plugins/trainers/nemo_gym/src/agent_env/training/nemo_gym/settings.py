"""How a resources server is run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from agent_env.errors import UsageError

MODES: Final = ("mask", "raise")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one resources server.

    Attributes:
        url: address of the bundle's server.
        token_var: environment variable that holds the server's token; `None` = no token.
        on_infra_failure: ``mask`` answers ``/verify`` of a failed episode with ``instance_config.mask_sample``, by
            which NeMo RL leaves the sample out; ``raise`` answers HTTP 503, which fails the rollout.
        idle_timeout: seconds without a request after which an episode is given up.
        most_failures: failed episodes in a row after which every failure is raised, so that an outage does not pass
            for training.

    Raises:
        UsageError: a value cannot be used.
    """

    url: str
    token_var: str | None = None
    on_infra_failure: str = "mask"
    idle_timeout: float = 3600.0
    most_failures: int = 128

    def __post_init__(self) -> None:
        if self.on_infra_failure == "drop":
            raise UsageError("NeMo Gym cannot drop a row: on_infra_failure is mask or raise")
        if self.on_infra_failure not in MODES:
            raise UsageError(f"on_infra_failure is mask or raise, got {self.on_infra_failure!r}")
        if not (math.isfinite(self.idle_timeout) and self.idle_timeout > 0):
            raise UsageError(f"idle_timeout must be seconds above 0, got {self.idle_timeout}")
        if self.most_failures < 1:
            raise UsageError(f"most_failures must be at least 1, got {self.most_failures}")
