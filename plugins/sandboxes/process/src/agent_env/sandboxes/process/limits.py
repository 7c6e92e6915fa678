"""The limits of one sandbox, as the files of its cgroups say them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Resources
    from agent_env.sandboxes.process.options import ProcessOptions

_PERIOD_US = 100_000
_MOST_CPU = 1e6
LEAST_CPU = 0.01
"""The kernel takes no quota below a millisecond in a period."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox is held to; `None` = no limit.

    Attributes:
        cpu: CPUs.
        memory_mb: memory in MiB, no swap beside it.
        pids: processes and threads.
        beside: processes of the sandbox's own that ``pids`` does not count.
    """

    cpu: float | None = None
    memory_mb: int | None = None
    pids: int | None = None
    beside: int = 0

    def __bool__(self) -> bool:
        return not self.cpu is self.memory_mb is self.pids is None

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that keep them."""
        pairs = (("cpu", self.cpu), ("memory", self.memory_mb), ("pids", self.pids))
        return frozenset(name for name, value in pairs if value is not None)

    def files(self, version: int, controllers: tuple[str, ...], *, together: bool) -> list[tuple[str, str, bool]]:
        """Names, contents, and whether it may be missing, of what is written in the order it is written.

        Args:
            version: of the hierarchy.
            controllers: those of the hierarchy.
            together: a lack of memory ends all processes at once and not only the largest.
        """
        found: list[tuple[str, str, bool]] = []
        if self.memory_mb is not None and "memory" in controllers:
            size = str(self.memory_mb << 20)
            if version == 2:
                found += [("memory.max", size, False), ("memory.swap.max", "0", True)]
                found += [("memory.oom.group", "1", False)] if together else []
            else:
                found += [("memory.limit_in_bytes", size, False), ("memory.memsw.limit_in_bytes", size, True)]
        if self.pids is not None and "pids" in controllers:
            found.append(("pids.max", str(self.pids + self.beside), False))
        if self.cpu is not None and "cpu" in controllers:
            quota = round(self.cpu * _PERIOD_US)
            if version == 2:
                found.append(("cpu.max", f"{quota} {_PERIOD_US}", False))
            else:
                found += [("cpu.cfs_period_us", str(_PERIOD_US), False), ("cpu.cfs_quota_us", str(quota), False)]
        return found


def of(resources: Resources, options: ProcessOptions) -> Limits:
    """What is asked for, and the options' defaults for the rest."""
    return Limits(
        cpu=options.cpu if resources.cpu is None else resources.cpu,
        memory_mb=options.memory_mb if resources.memory_mb is None else resources.memory_mb,
        pids=options.pids if resources.pids is None else resources.pids,
    )


def nonsense(resources: Resources) -> str:
    """What is wrong with limits that are asked for; empty when nothing is."""
    if resources.cpu is not None and not LEAST_CPU <= resources.cpu <= _MOST_CPU:
        return f"cpu {resources.cpu:g} is no quota; it takes numbers from {LEAST_CPU:g} to {_MOST_CPU:g}"
    for name, value in (("memory_mb", resources.memory_mb), ("pids", resources.pids)):
        if value is not None and value < 1:
            return f"{name} {value} is no limit that anything could run under"
    return ""
