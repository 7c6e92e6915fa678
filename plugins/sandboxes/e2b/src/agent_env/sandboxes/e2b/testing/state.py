"""What the stand-in holds: sandboxes and templates."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from agent_env.sandboxes.e2b.testing.builds import Template
    from agent_env.sandboxes.e2b.testing.machine import Machine

ENVD_VERSION = "0.6.7"


@dataclass
class Box:
    """A sandbox."""

    id: str
    template: Template
    machine: Machine
    metadata: dict[str, str]
    envs: dict[str, str]
    private: bool
    internet: bool
    key: str | None
    end_at: float
    started_at: float = field(default_factory=time.time)
    envd_token: str = field(default_factory=lambda: secrets.token_hex(16))
    traffic_token: str = field(default_factory=lambda: secrets.token_hex(16))
    timer: asyncio.TimerHandle | None = None

    @property
    def workdir(self) -> str:
        """Where commands start."""
        return self.template.workdir or "/"

    def created(self, *, traffic: bool) -> dict[str, Any]:
        """The answer to a create or connect."""
        return {
            "templateID": self.template.id,
            "sandboxID": self.id,
            "clientID": "standin",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.envd_token,
            "trafficAccessToken": self.traffic_token if self.private and traffic else None,
            "domain": None,
        }

    def detail(self) -> dict[str, Any]:
        """The answer to a question about it."""
        return {
            "templateID": self.template.id,
            "alias": self.template.name,
            "sandboxID": self.id,
            "clientID": "standin",
            "startedAt": _iso(self.started_at),
            "endAt": _iso(self.end_at),
            "cpuCount": self.template.cpu,
            "memoryMB": self.template.memory_mb,
            "diskSizeMB": 1024,
            "metadata": self.metadata,
            "state": "running",
            "envdVersion": ENVD_VERSION,
            "allowInternetAccess": self.internet,
        }


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
