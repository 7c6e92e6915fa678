"""What a sandbox carries about itself: its metadata at the service."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from agent_env.plugin import lease
from agent_env.plugin.sandbox import SandboxRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.sandboxes.e2b.sdk import SdkInfo

MARK = "agentenv"
CREATE_ID = "agentenv_create"
_OWNER = "agentenv_owner"
_CREATED = "agentenv_created"
_ABOUT = "agentenv_about"
_USER = "agentenv_label_"

Status = Literal["starting", "running", "exited", "gone"]


@dataclass(frozen=True, slots=True)
class About:
    """What another process has to know to use a sandbox.

    Attributes:
        label: the sandbox's short name.
        serves: whether it has a server.
        port: TCP port of the server inside.
        workdir: where relative paths and commands start; ``""`` = where the service starts them.
    """

    label: str
    serves: bool
    port: int = 0
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A sandbox of ours as the service tells of it."""

    id: str
    create_id: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float
    owner: Mapping[str, Any]
    about: About
    status: Status

    def record(self) -> SandboxRecord:
        """As the contract lists it."""
        return SandboxRecord(
            id=self.id,
            labels=self.labels,
            created_at=self.created_at,
            expires_at=self.expires_at,
            owner_alive=lease.alive(self.owner) if self.owner else None,
            status=self.status,
        )

    def may_reap(self, now: float, older_than_s: float | None) -> bool:
        """Whether nobody owns it any more."""
        return lease.may_reap(
            self.owner, created_at=self.created_at, expires_at=self.expires_at, now=now, older_than_s=older_than_s
        )


def write(provider: str, create_id: str, about: About, user: Mapping[str, str]) -> dict[str, str]:
    """Metadata of a new sandbox."""
    fields = {name: getattr(about, name) for name in about.__slots__}
    return {
        MARK: provider,
        CREATE_ID: create_id,
        _OWNER: json.dumps(lease.owner(), separators=(",", ":")),
        _CREATED: f"{time.time():.3f}",
        _ABOUT: json.dumps(fields, separators=(",", ":")),
        f"{_USER}label": about.label,
        **{f"{_USER}{key}": value for key, value in user.items()},
    }


def query(provider: str, user: Mapping[str, str] | None = None) -> dict[str, str]:
    """Metadata that sandboxes of ours with these labels have."""
    return {MARK: provider, **{f"{_USER}{key}": value for key, value in (user or {}).items()}}


def read(provider: str, info: SdkInfo) -> Found | None:
    """What the service says of a sandbox; `None` when it is none of ours."""
    data = dict(info.metadata)
    if data.get(MARK) != provider or CREATE_ID not in data:
        return None
    user = {key.removeprefix(_USER): value for key, value in data.items() if key.startswith(_USER)}
    return Found(
        id=info.sandbox_id,
        create_id=data[CREATE_ID],
        labels={MARK: provider, "create_id": data[CREATE_ID], **user},
        created_at=_number(data.get(_CREATED), info.started_at.timestamp()),
        expires_at=info.end_at.timestamp(),
        owner=_object(data.get(_OWNER)),
        about=_about(_object(data.get(_ABOUT))),
        status="running" if getattr(info.state, "value", info.state) == "running" else "exited",
    )


def _about(fields: Mapping[str, Any]) -> About:
    try:
        return About(**fields)
    except TypeError:
        return About(label="", serves=False)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value: object = json.loads(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(text: str | None, default: float) -> float:
    try:
        return float(text or "")
    except ValueError:
        return default
