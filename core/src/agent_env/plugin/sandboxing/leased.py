"""What a sandbox carries about itself at a service, so that any process of the user finds it, uses it and may end it.

::

    LABELS = Labels("cloudlet")
    asked = LABELS.write(lease.new_id(), "env", {"team": "blue"}, About(serves=True), expires_at=time.time() + ttl_s)
    found = LABELS.read(service_labels)  # None: it is none of ours
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from agent_env.plugin.sandbox import SandboxRecord
from agent_env.plugin.sandboxing import lease

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

MARK: Final = "agentenv"
"""The label that all sandboxes of AgentEnv have; its value is the provider's name."""

Status = Literal["starting", "running", "exited", "gone"]
A = TypeVar("A", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A sandbox of ours as its service tells of it; a provider adds what it needs itself.

    Attributes:
        id: the service's id.
        create_id: ours, made before the create.
        labels: as the contract gives them.
        created_at: Unix time.
        expires_at: Unix time.
        owner: as `agent_env.plugin.sandboxing.lease.owner` writes it; empty when it is not known.
        status: what it does.
    """

    id: str
    create_id: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float
    owner: Mapping[str, Any]
    status: Status = "running"

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
        """Whether nobody owns it any more; see `agent_env.plugin.sandboxing.lease.may_reap`."""
        return lease.may_reap(
            self.owner, created_at=self.created_at, expires_at=self.expires_at, now=now, older_than_s=older_than_s
        )


@dataclass(frozen=True, slots=True)
class Said:
    """What labels say.

    Attributes:
        create_id: ours.
        labels: as the contract gives them.
        owner: see `Leased`.
        created_at: Unix time, `None` when it is not there.
        expires_at: Unix time, `None` when it is not there.
        about: fields of what the provider wrote about it.
    """

    create_id: str
    labels: Mapping[str, str]
    owner: Mapping[str, Any]
    created_at: float | None
    expires_at: float | None
    about: Mapping[str, Any]

    def about_as(self, kind: type[A], default: A) -> A:
        """What was written about it; ``default`` when it is not there or is of another version."""
        try:
            return kind(**self.about) if self.about else default
        except TypeError:
            return default


class Labels:
    """Writes and reads the labels of a provider's sandboxes.

    Args:
        provider: its name.
        separator: stands between the parts of a label's name, where a service allows no dots.
    """

    def __init__(self, provider: str, *, separator: str = ".") -> None:
        self._provider = provider
        self.create_id = f"{MARK}{separator}id"
        self.expires = f"{MARK}{separator}expires"
        self._owner = f"{MARK}{separator}owner"
        self._created = f"{MARK}{separator}created"
        self._about = f"{MARK}{separator}about"
        self._user = f"{MARK}{separator}label{separator}"

    def write(
        self,
        create_id: str,
        label: str,
        user: Mapping[str, str],
        about: DataclassInstance,
        *,
        created_at: float | None = None,
        expires_at: float | None = None,
    ) -> dict[str, str]:
        """Labels of a new sandbox.

        Args:
            create_id: made before the create, see `agent_env.plugin.sandboxing.lease.new_id`.
            label: the sandbox's short name.
            user: the labels that were asked for.
            about: what another process has to know to use it: a dataclass of JSON values, no secrets.
            created_at: Unix time; now without it.
            expires_at: Unix time, where the service does not tell it by itself.
        """
        values = {field.name: getattr(about, field.name) for field in fields(about)}
        expiry = {} if expires_at is None else {self.expires: f"{expires_at:.3f}"}
        return {
            MARK: self._provider,
            self.create_id: create_id,
            self._owner: json.dumps(lease.owner(), separators=(",", ":")),
            self._created: f"{time.time() if created_at is None else created_at:.3f}",
            **expiry,
            self._about: json.dumps(values, separators=(",", ":")),
            f"{self._user}label": label,
            **{f"{self._user}{key}": value for key, value in user.items()},
        }

    def query(self, user: Mapping[str, str] | None = None) -> dict[str, str]:
        """Labels by which a service finds sandboxes of ours that carry all of ``user``."""
        return {MARK: self._provider, **{f"{self._user}{key}": value for key, value in (user or {}).items()}}

    def read(self, raw: Mapping[str, str]) -> Said | None:
        """What labels say; `None` when the sandbox is none of ours."""
        if raw.get(MARK) != self._provider or self.create_id not in raw:
            return None
        user = {key.removeprefix(self._user): value for key, value in raw.items() if key.startswith(self._user)}
        return Said(
            create_id=raw[self.create_id],
            labels={MARK: self._provider, "create_id": raw[self.create_id], **user},
            owner=_object(raw.get(self._owner)),
            created_at=_number(raw.get(self._created)),
            expires_at=_number(raw.get(self.expires)),
            about=_object(raw.get(self._about)),
        )


def _object(text: str | None) -> dict[str, Any]:
    try:
        value: object = json.loads(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
