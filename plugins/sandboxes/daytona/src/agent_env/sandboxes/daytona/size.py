"""How large a sandbox is, as Daytona counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.daytona.options import DaytonaOptions

GIB = 1024
"""MiB."""


@dataclass(frozen=True, slots=True)
class Size:
    """Resources as Daytona counts them: whole CPUs and GiB; `None` = the account's default."""

    cpu: int | None = None
    memory: int | None = None
    disk: int | None = None

    @property
    def suffix(self) -> str:
        """For a snapshot's name, because a snapshot has its size."""
        parts = [("c", self.cpu), ("m", self.memory), ("d", self.disk)]
        return "".join(f"-{letter}{number}" for letter, number in parts if number is not None)

    def resources(self, sdk: Any) -> Any:
        """The SDK's form; `None` when nothing is asked for."""
        if self == Size():
            return None
        return sdk.Resources(cpu=self.cpu, memory=self.memory, disk=self.disk)


def size_of(spec: SandboxSpec | None, options: DaytonaOptions) -> Size:
    """The size of a sandbox."""
    asked = spec.resources if spec is not None else None
    memory = asked.memory_mb if asked is not None and asked.memory_mb is not None else options.memory_mb
    disk = asked.disk_mb if asked is not None and asked.disk_mb is not None else options.disk_mb
    cpu = int(asked.cpu) if asked is not None and asked.cpu is not None else options.cpu
    return Size(cpu, memory // GIB if memory is not None else None, disk // GIB if disk is not None else None)
