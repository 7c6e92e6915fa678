"""What the stand-in's service does wrong, switched on by tests."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Faults:
    """Faults of the service. Numbers count down with each request that is hit.

    Attributes:
        rate_limit: creates that are answered with 429.
        retry_after: what such an answer asks for, as the header's text; `None` = no header.
        unavailable: requests of any kind that are answered with 503.
        quota: creates are refused because the account's quota is used up.
        lost_reply: creates that are done and whose connection is then cut.
        slow_create: seconds between a create's beginning and its answer.
        late_start: seconds after a create's answer until the sandbox has started.
        conflicts: deletes that are refused because the sandbox is changing its state.
        build_fails: reason why snapshots are not built.
    """

    rate_limit: int = 0
    retry_after: str | None = "1"
    unavailable: int = 0
    quota: bool = False
    lost_reply: int = 0
    slow_create: float = 0.0
    late_start: float = 0.0
    conflicts: int = 0
    build_fails: str = ""

    def reset(self) -> None:
        """Nothing is wrong."""
        fresh = Faults()
        for one in fields(self):
            setattr(self, one.name, getattr(fresh, one.name))

    def hit(self, name: str) -> bool:
        """Whether a counted fault happens now."""
        left: int = getattr(self, name)
        setattr(self, name, max(0, left - 1))
        return left > 0
