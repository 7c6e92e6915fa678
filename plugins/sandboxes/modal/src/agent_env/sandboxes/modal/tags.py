"""What a sandbox carries about itself: its name and tags at Modal, in few and plain characters."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent_env.plugin import lease
from agent_env.plugin.sandbox import SandboxRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK: Final = "agentenv"
CREATE_ID: Final = "agentenv_id"
_OWNER: Final = "agentenv_owner"
_CREATED: Final = "agentenv_created"
_EXPIRES: Final = "agentenv_expires"
_PORT: Final = "agentenv_port"
_WORKDIR: Final = "agentenv_workdir"
_USER: Final = "agentenv_label_"


@dataclass(frozen=True, slots=True)
class Found:
    """A sandbox of ours.

    Attributes:
        id: Modal's id.
        create_id: ours.
        labels: as the contract gives them.
        created_at: Unix time.
        expires_at: Unix time.
        owner: as `agent_env.plugin.lease.owner` writes it, as far as it can be told here.
        port: TCP port of the server inside, `None` when there is none.
        workdir: where relative paths start, `None` = it is not known.
    """

    id: str
    create_id: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float
    owner: Mapping[str, Any]
    port: int | None
    workdir: str | None

    def record(self) -> SandboxRecord:
        """As the contract lists it."""
        return SandboxRecord(
            id=self.id,
            labels=self.labels,
            created_at=self.created_at,
            expires_at=self.expires_at,
            owner_alive=lease.alive(self.owner) if self.owner else None,
            status="running",
        )

    def may_reap(self, now: float, older_than_s: float | None) -> bool:
        """Whether nobody owns it any more."""
        return lease.may_reap(
            self.owner, created_at=self.created_at, expires_at=self.expires_at, now=now, older_than_s=older_than_s
        )


def name_of(create_id: str) -> str:
    """The name, unique within the App, by which a create whose answer was lost is found."""
    return f"agentenv-{create_id}"


def write(
    create_id: str, label: str, user: Mapping[str, str], *, ttl_s: float, port: int | None, workdir: str | None
) -> dict[str, str]:
    """Tags of a new sandbox."""
    now = time.time()
    return {
        MARK: "modal",
        CREATE_ID: create_id,
        _OWNER: _pack_owner(lease.owner()),
        _CREATED: f"{now:.3f}",
        _EXPIRES: f"{now + ttl_s:.3f}",
        _PORT: str(port or 0),
        _WORKDIR: base64.urlsafe_b64encode((workdir or "").encode()).rstrip(b"=").decode() or "-",
        f"{_USER}label": label,
        **{f"{_USER}{key}": value for key, value in user.items()},
    }


def wanted(labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tags that sandboxes of ours with these labels have."""
    return {MARK: "modal", **{f"{_USER}{key}": value for key, value in (labels or {}).items()}}


def read(sandbox_id: str, tags: Mapping[str, str]) -> Found | None:
    """What a sandbox's tags say; `None` when it is none of ours."""
    if tags.get(MARK) != "modal" or CREATE_ID not in tags:
        return None
    now = time.time()
    port = tags.get(_PORT, "0")
    user = {key.removeprefix(_USER): value for key, value in tags.items() if key.startswith(_USER)}
    return Found(
        id=sandbox_id,
        create_id=tags[CREATE_ID],
        labels={MARK: "modal", "create_id": tags[CREATE_ID], **user},
        created_at=_number(tags.get(_CREATED), now),
        expires_at=_number(tags.get(_EXPIRES), now),
        owner=_unpack_owner(tags.get(_OWNER, "")),
        port=int(port) if port.isdigit() and port != "0" else None,
        workdir=_workdir(tags.get(_WORKDIR, "-")),
    )


def _hash(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()[:10]


def _pack_owner(owner: Mapping[str, Any]) -> str:
    """Short, and without the names of this machine: who is on the same machine recognizes the digests."""
    places = ".".join(_hash(owner[key]) for key in ("host", "boot", "pidns"))
    return f"{places}.{owner['pid']}.{owner['start']}"


def _unpack_owner(text: str) -> dict[str, Any]:
    parts = text.split(".")
    if len(parts) != 5 or not parts[3].isdigit():
        return {}
    here = lease.machine()
    places = {
        key: here[key] if _hash(here[key]) == digest else digest
        for key, digest in zip(("host", "boot", "pidns"), parts[:3], strict=True)
    }
    return {**places, "pid": int(parts[3]), "start": int(parts[4]) if parts[4].isdigit() else None}


def _workdir(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() if text != "-" else None
    except ValueError:
        return None


def _number(text: str | None, default: float) -> float:
    try:
        return float(text or "")
    except ValueError:
        return default
