"""What the stand-in knows of sandboxes and snapshots, and how the wire says it."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from agent_env.sandboxes.daytona.testing.building import Built
    from agent_env.sandboxes.daytona.testing.machine import Machine
    from agent_env.sandboxes.daytona.testing.preview import Preview

_DEFAULTS = {"cpu": 1, "memory": 1, "disk": 3}


def moment(at: float) -> str:
    """A time as the wire has it."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def uuid() -> str:
    """An id."""
    text = secrets.token_hex(16)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(slots=True)
class Snapshot:
    """A snapshot."""

    name: str
    request: dict[str, Any]
    id: str = field(default_factory=uuid)
    state: str = "building"
    reason: str | None = None
    log: list[str] = field(default_factory=list[str])
    built: Built | None = None
    created_at: float = field(default_factory=time.time)

    def wire(self) -> dict[str, Any]:
        """As the API says it."""
        now = moment(self.created_at)
        return {
            "id": self.id,
            "general": False,
            "name": self.name,
            "state": self.state,
            "size": None,
            "entrypoint": self.request.get("entrypoint"),
            "cpu": self.request.get("cpu") or _DEFAULTS["cpu"],
            "gpu": 0,
            "mem": self.request.get("memory") or _DEFAULTS["memory"],
            "disk": self.request.get("disk") or _DEFAULTS["disk"],
            "errorReason": self.reason,
            "createdAt": now,
            "updatedAt": now,
            "lastUsedAt": None,
            "sourceSandboxId": None,
        }


@dataclass(slots=True)
class Box:
    """A sandbox. ``idle_from`` is when it was last used through the API; a preview is no use."""

    request: dict[str, Any]
    name: str
    machine: Machine
    toolbox: str
    id: str = field(default_factory=uuid)
    state: str = "creating"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    created_at: float = field(default_factory=time.time)
    idle_from: float = field(default_factory=time.time)
    destroy_at: float | None = None
    previews: dict[int, Preview] = field(default_factory=dict["int", "Preview"])
    work: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    def wire(self) -> dict[str, Any]:
        """As the API says it."""
        asked = self.request
        return {
            "id": self.id,
            "organizationId": "standin",
            "name": self.name,
            "snapshot": asked.get("snapshot"),
            "user": "daytona",
            "env": asked.get("env") or {},
            "labels": self.labels,
            "public": bool(asked.get("public")),
            "networkBlockAll": bool(asked.get("networkBlockAll")),
            "kvm": False,
            "target": asked.get("target") or "local",
            **{name: asked.get(name) or default for name, default in _DEFAULTS.items()},
            "gpu": 0,
            "state": self.state,
            "autoStopInterval": asked.get("autoStopInterval", 15),
            "autoDeleteInterval": asked.get("autoDeleteInterval", -1),
            "autoDestroyAt": moment(self.destroy_at) if self.destroy_at is not None else None,
            "createdAt": moment(self.created_at),
            "updatedAt": moment(self.created_at),
            "toolboxProxyUrl": self.toolbox,
        }
