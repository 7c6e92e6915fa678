"""What a sandbox carries about itself: its metadata at the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.plugin.sandboxing.leased import Labels, Leased

if TYPE_CHECKING:
    from agent_env.sandboxes.e2b.sdk import SdkInfo


@dataclass(frozen=True, slots=True)
class About:
    """What another process has to know to use a sandbox.

    Attributes:
        serves: whether it has a server.
        port: TCP port of the server inside.
        workdir: where relative paths and commands start; ``""`` = where the service starts them.
    """

    serves: bool = False
    port: int = 0
    workdir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Leased):
    """A sandbox of ours as the service tells of it."""

    about: About


def labels_of(provider: str) -> Labels:
    """The metadata of a provider's sandboxes."""
    return Labels(provider, separator="_")


def read(labels: Labels, info: SdkInfo) -> Found | None:
    """What the service says of a sandbox; `None` when it is none of ours."""
    said = labels.read(info.metadata)
    if said is None:
        return None
    return Found(
        id=info.sandbox_id,
        create_id=said.create_id,
        labels=said.labels,
        created_at=said.created_at if said.created_at is not None else info.started_at.timestamp(),
        expires_at=info.end_at.timestamp(),
        owner=said.owner,
        about=said.about_as(About, About()),
        status="running" if getattr(info.state, "value", info.state) == "running" else "exited",
    )
