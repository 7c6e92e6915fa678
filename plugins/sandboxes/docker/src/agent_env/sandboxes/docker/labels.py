"""What a container carries about itself: labels, and its name, which alone can be changed and so holds the expiry."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.sandboxing.leased import Labels, Leased
from agent_env.sandboxes.docker.failures import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandboxing.leased import Status

LABELS = Labels(NAME)

ID_LENGTH = 12
"""As much of a container's id as ``docker ps`` shows."""


@dataclass(frozen=True, slots=True)
class About:
    """What another process has to know to use a container.

    Attributes:
        label: the sandbox's short name.
        serves: whether it has a server.
        way: how the server is reached.
        uds: whether the server may listen on the shared socket itself.
        port: TCP port of the server inside.
        folder: the shared folder on the engine's machine, or ``""``.
    """

    label: str
    serves: bool
    way: str = ""
    uds: bool = False
    port: int = 0
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Leased):
    """A container of ours as the engine lists it."""

    about: About


def name_of(create_id: str, expires_at: float | None = None) -> str:
    """A container's name; with ``expires_at`` the one it gets when its life is extended."""
    return f"agentenv-{create_id}" if expires_at is None else f"agentenv-{create_id}-{int(expires_at)}"


def filters(labels: Mapping[str, str] | None = None) -> str:
    """The engine's filter for containers of ours with these labels."""
    return json.dumps({"label": [f"{key}={value}" for key, value in LABELS.query(labels).items()]})


_STATES: Mapping[str, Status] = {
    "created": "starting",
    "restarting": "running",
    "running": "running",
    "paused": "running",
    "removing": "gone",
    "exited": "exited",
    "dead": "exited",
}


def status_of(state: str) -> Status:
    """Status by the engine's word."""
    return _STATES.get(state, "running")


def read(container_id: str, labels: Mapping[str, str], names: tuple[str, ...], state: str) -> Found | None:
    """What the engine says of a container; `None` when it is none of ours."""
    said = LABELS.read(labels)
    if said is None:
        return None
    now = time.time()
    expires = now if said.expires_at is None else said.expires_at
    prefix = f"{name_of(said.create_id)}-"
    for name in names:
        if name.lstrip("/").startswith(prefix):
            expires = _number(name.lstrip("/").removeprefix(prefix), expires)
    return Found(
        id=container_id[:ID_LENGTH],
        create_id=said.create_id,
        labels=said.labels,
        created_at=now if said.created_at is None else said.created_at,
        expires_at=expires,
        owner=said.owner,
        status=status_of(state),
        about=said.about_as(About, About(label="", serves=False)),
    )


def part(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A part of one of the engine's answers, empty where it is missing or null."""
    for name in names:
        inner: object = found.get(name)
        found = cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else {}
    return found


def listed(container: Mapping[str, Any]) -> Found | None:
    """An entry of ``containers/json``."""
    return read(
        container["Id"], container.get("Labels") or {}, tuple(container.get("Names") or ()), container.get("State", "")
    )


def inspected(container: Mapping[str, Any]) -> Found | None:
    """The answer of ``containers/<id>/json``."""
    state = str(part(container, "State").get("Status", ""))
    return read(container["Id"], part(container, "Config", "Labels"), (container.get("Name", ""),), state)


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
