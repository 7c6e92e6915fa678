"""What a container carries about itself: labels, and its name, which alone can be changed and so holds the expiry."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from agent_env.plugin import lease
from agent_env.plugin.sandbox import SandboxRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "agentenv"
CREATE_ID = "agentenv.id"
_OWNER = "agentenv.owner"
_CREATED = "agentenv.created"
_EXPIRES = "agentenv.expires"
_ABOUT = "agentenv.about"
_USER = "agentenv.label."

ID_LENGTH = 12
"""As much of a container's id as ``docker ps`` shows."""

Status = Literal["starting", "running", "exited", "gone"]


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

    def record(self) -> str:
        """As JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Found:
    """A container of ours as the engine lists it."""

    id: str
    create_id: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float
    owner: Mapping[str, Any]
    status: Status
    about: About
    names: tuple[str, ...] = field(default=())

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


def name_of(create_id: str, expires_at: float | None = None) -> str:
    """A container's name; with ``expires_at`` the one it gets when its life is extended."""
    return f"agentenv-{create_id}" if expires_at is None else f"agentenv-{create_id}-{int(expires_at)}"


def write(create_id: str, label: str, user: Mapping[str, str], created_at: float, expires_at: float) -> dict[str, str]:
    """Labels of a new container, without `about`."""
    return {
        MARK: "docker",
        CREATE_ID: create_id,
        _OWNER: json.dumps(lease.owner(), separators=(",", ":")),
        _CREATED: f"{created_at:.3f}",
        _EXPIRES: f"{expires_at:.3f}",
        f"{_USER}label": label,
        **{f"{_USER}{key}": value for key, value in user.items()},
    }


def about_label(about: About) -> dict[str, str]:
    """The label that holds ``about``."""
    return {_ABOUT: about.record()}


def filters(labels: Mapping[str, str] | None = None) -> str:
    """The engine's filter for containers of ours with these labels."""
    wanted = [f"{MARK}=docker", *(f"{_USER}{key}={value}" for key, value in (labels or {}).items())]
    return json.dumps({"label": wanted})


def by_create_id(create_id: str) -> str:
    """The engine's filter for the container of a create."""
    return json.dumps({"label": [f"{CREATE_ID}={create_id}"]})


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
    if labels.get(MARK) != "docker" or CREATE_ID not in labels:
        return None
    create_id = labels[CREATE_ID]
    now = time.time()
    expires = _number(labels.get(_EXPIRES), now)
    prefix = f"agentenv-{create_id}-"
    for name in names:
        if name.lstrip("/").startswith(prefix):
            expires = _number(name.lstrip("/").removeprefix(prefix), expires)
    user = {key.removeprefix(_USER): value for key, value in labels.items() if key.startswith(_USER)}
    return Found(
        id=container_id[:ID_LENGTH],
        create_id=create_id,
        labels={MARK: "docker", "create_id": create_id, **user},
        created_at=_number(labels.get(_CREATED), now),
        expires_at=expires,
        owner=_object(labels.get(_OWNER)),
        status=status_of(state),
        about=_about(_object(labels.get(_ABOUT))),
        names=names,
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
