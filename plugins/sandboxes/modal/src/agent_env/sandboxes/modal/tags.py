"""What a sandbox carries about itself: its name and tags at Modal, in few and plain characters."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent_env.plugin.sandboxing import lease
from agent_env.plugin.sandboxing.leased import MARK, Leased

if TYPE_CHECKING:
    from collections.abc import Mapping

CREATE_ID: Final = "agentenv_id"
_OWNER: Final = "agentenv_owner"
_ABOUT: Final = "agentenv_about"
_USER: Final = "agentenv_label_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Leased):
    """A sandbox of ours.

    Attributes:
        port: TCP port of the server inside, `None` when there is none.
        workdir: where relative paths start, `None` = it is not known.
    """

    port: int | None
    workdir: str | None


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
        _ABOUT: f"{round(now * 1000)}.{round((now + ttl_s) * 1000)}.{port or 0}.{_packed(workdir)}",
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
    now = round(time.time() * 1000)
    created, expires, port, workdir = _about(tags.get(_ABOUT, ""), now)
    user = {key.removeprefix(_USER): value for key, value in tags.items() if key.startswith(_USER)}
    return Found(
        id=sandbox_id,
        create_id=tags[CREATE_ID],
        labels={MARK: "modal", "create_id": tags[CREATE_ID], **user},
        created_at=created / 1000,
        expires_at=expires / 1000,
        owner=_unpack_owner(tags.get(_OWNER, "")),
        port=port or None,
        workdir=workdir,
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


def _packed(workdir: str | None) -> str:
    return base64.urlsafe_b64encode((workdir or "").encode()).rstrip(b"=").decode()


def _about(text: str, now: int) -> tuple[int, int, int, str | None]:
    """When it was created and expires, in milliseconds, its port and its work folder."""
    parts = text.split(".")
    try:
        created, expires, port = (int(part) for part in parts[:3])
        workdir = base64.urlsafe_b64decode(parts[3] + "=" * (-len(parts[3]) % 4)).decode()
    except (ValueError, IndexError):
        return now, now, 0, None
    return created, expires, port, workdir or None
