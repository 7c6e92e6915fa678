"""What a sandbox carries about itself, and what is read from it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from agent_env.plugin import lease
from agent_env.plugin.sandbox import SandboxRecord
from agent_env.sandboxes.daytona.sdk import NAME, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.sandboxes.daytona.sdk import Remote

MARK = "agentenv"
CREATE_ID = "agentenv.id"
EXPIRES = "agentenv.expires"
_OWNER = "agentenv.owner"
_CREATED = "agentenv.created"
_ABOUT = "agentenv.about"
_USER = "agentenv.label."

Status = Literal["starting", "running", "exited", "gone"]

_STATUS: Mapping[str, Status] = {
    "started": "running",
    "resizing": "running",
    "snapshotting": "running",
    "forking": "running",
    "creating": "starting",
    "restoring": "starting",
    "starting": "starting",
    "resuming": "starting",
    "pending_build": "starting",
    "building_snapshot": "starting",
    "pulling_snapshot": "starting",
    "unknown": "starting",
    "destroyed": "gone",
    "destroying": "gone",
}


def status_of(state: str) -> Status:
    """Status by Daytona's word; what is stopped, archived or broken has ended."""
    return _STATUS.get(state, "exited")


@dataclass(frozen=True, slots=True)
class About:
    """What another process has to know to use a sandbox.

    Attributes:
        label: its short name.
        serves: whether it has a server.
        port: TCP port of the server.
        workdir: folder that relative paths start in, or ``""`` for the image's own.
        ours: whether we started the server, and not the snapshot's entrypoint.
    """

    label: str
    serves: bool
    port: int = 0
    workdir: str = ""
    ours: bool = True

    def text(self) -> str:
        """As JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Found:
    """A sandbox of ours as Daytona lists it."""

    id: str
    create_id: str
    labels: Mapping[str, str]
    raw: Mapping[str, str]
    created_at: float
    expires_at: float
    owner: Mapping[str, Any]
    status: Status
    about: About

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


def name_of(create_id: str) -> str:
    """The sandbox's name: unique in an organization, so it finds what a lost answer made."""
    return f"agentenv-{create_id}"


def write(
    create_id: str, user: Mapping[str, str], about: About, created_at: float, expires_at: float
) -> dict[str, str]:
    """Labels of a new sandbox."""
    return {
        MARK: NAME,
        CREATE_ID: create_id,
        _OWNER: json.dumps(lease.owner(), separators=(",", ":")),
        _CREATED: f"{created_at:.3f}",
        EXPIRES: f"{expires_at:.3f}",
        _ABOUT: about.text(),
        f"{_USER}label": about.label,
        **{f"{_USER}{key}": value for key, value in user.items()},
    }


def query(labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels by which Daytona finds sandboxes of ours."""
    return {MARK: NAME, **{f"{_USER}{key}": value for key, value in (labels or {}).items()}}


def read(remote: Remote) -> Found | None:
    """What Daytona says of a sandbox; `None` when it is none of ours."""
    raw = dict(remote.labels)
    if raw.get(MARK) != NAME or CREATE_ID not in raw:
        return None
    created = _number(raw.get(_CREATED), _time(getattr(remote, "created_at", None)))
    expires = _number(raw.get(EXPIRES), _time(getattr(remote, "auto_destroy_at", None)))
    user = {key.removeprefix(_USER): value for key, value in raw.items() if key.startswith(_USER)}
    return Found(
        id=remote.id,
        create_id=raw[CREATE_ID],
        labels={MARK: NAME, "create_id": raw[CREATE_ID], **user},
        raw=raw,
        created_at=created,
        expires_at=expires,
        owner=_object(raw.get(_OWNER)),
        status=status_of(state_of(remote)),
        about=_about(_object(raw.get(_ABOUT))),
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


def _time(text: str | None) -> float:
    """A time as Daytona writes it; now when it does not say."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return time.time()
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
