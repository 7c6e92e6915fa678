"""What a sandbox carries about itself, and what is read from it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent_env.plugin.sandboxing.leased import Labels, Leased
from agent_env.sandboxes.daytona.sdk import NAME, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandboxing.leased import Status
    from agent_env.sandboxes.daytona.sdk import Remote

LABELS = Labels(NAME)

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
        serves: whether it has a server.
        port: TCP port of the server.
        workdir: folder that relative paths start in, or ``""`` for the image's own.
        ours: whether we started the server, and not the snapshot's entrypoint.
    """

    serves: bool = False
    port: int = 0
    workdir: str = ""
    ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Leased):
    """A sandbox of ours as Daytona lists it."""

    about: About


def name_of(create_id: str) -> str:
    """The sandbox's name: unique in an organization, so it finds what a lost answer made."""
    return f"agentenv-{create_id}"


def read(remote: Remote) -> Found | None:
    """What Daytona says of a sandbox; `None` when it is none of ours."""
    said = LABELS.read(remote.labels)
    if said is None:
        return None
    created, expires = getattr(remote, "created_at", None), getattr(remote, "auto_destroy_at", None)
    return Found(
        id=remote.id,
        create_id=said.create_id,
        labels=said.labels,
        created_at=_time(created) if said.created_at is None else said.created_at,
        expires_at=_time(expires) if said.expires_at is None else said.expires_at,
        owner=said.owner,
        status=status_of(state_of(remote)),
        about=said.about_as(About, About()),
    )


def _time(text: str | None) -> float:
    """A time as Daytona writes it; now when it does not say."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return time.time()
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
