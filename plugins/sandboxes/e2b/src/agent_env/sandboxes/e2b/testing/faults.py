"""What can be switched on to go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["status", "lost", "slow", "slow_after"]


@dataclass
class Fault:
    """One fault.

    Attributes:
        route: ``create``, ``list``, ``info``, ``kill``, ``timeout``, ``connect``, ``build`` or ``envd``.
        kind: ``status`` = answered with ``status`` and nothing done; ``lost`` = done, and the connection drops;
            ``slow`` = done ``seconds`` later; ``slow_after`` = done at once, answered ``seconds`` later.
        times: how often.
    """

    route: str
    kind: Kind = "status"
    times: int = 1
    status: int = 500
    message: str = "injected"
    retry_after: int | None = None
    seconds: float = 0.0


@dataclass
class Faults:
    """The faults to come; in force until used up.

    Attributes:
        too_old: the server knows no POST under ``/v2/sandboxes``.
        no_uploads: it takes no files for builds.
        no_traffic_token: it gives no token for private ports.
    """

    waiting: list[Fault] = field(default_factory=list[Fault])
    too_old: bool = False
    no_uploads: bool = False
    no_traffic_token: bool = False

    def add(self, fault: Fault) -> None:
        """Let it happen."""
        self.waiting.append(fault)

    def take(self, route: str) -> Fault | None:
        """The fault that a request meets."""
        for fault in self.waiting:
            if fault.route == route and fault.times > 0:
                fault.times -= 1
                return fault
        return None
