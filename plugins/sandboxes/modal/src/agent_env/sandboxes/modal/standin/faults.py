"""What the stand-in can be made to do wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpclib import GRPCError, Status
from modal_proto import api_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Faults:
    """Set from the test's thread, read in the stand-in's.

    Attributes:
        refusals: taken by the next creates, one each.
        lost_replies: so many creates are done, and their answers lost.
        slow_create_s: seconds that a create takes before it is done.
        slow_reply_s: seconds that a create's answer takes after it is done.
        stale_router_tokens: so many requests to a sandbox are refused for their token.
        no_connect_tokens: the proxy knows no token any more.
        slow_build_s: seconds that an image build takes.
        failing_terminates: so many requests to end a sandbox fail.
    """

    refusals: list[GRPCError] = field(default_factory=list[GRPCError])
    lost_replies: int = 0
    slow_create_s: float = 0.0
    slow_reply_s: float = 0.0
    stale_router_tokens: int = 0
    no_connect_tokens: bool = False
    slow_build_s: float = 0.0
    failing_terminates: int = 0

    def take(self, name: str) -> bool:
        """Whether a counted fault happens now."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


def rate_limit(retry_after: float | None = None) -> GRPCError:
    """Too many requests."""
    details: Sequence[object] | None = None
    if retry_after is not None:
        details = [api_pb2.RPCRetryPolicy(retry_after_secs=retry_after)]
    return GRPCError(Status.RESOURCE_EXHAUSTED, "Rate limit of sandbox creation hit", details)


def quota() -> GRPCError:
    """No quota left."""
    return GRPCError(Status.RESOURCE_EXHAUSTED, "Workspace limit exceeded: 100 concurrent sandboxes")


def unavailable() -> GRPCError:
    """The service is down."""
    return GRPCError(Status.UNAVAILABLE, "the service is having a bad day")


def auth() -> GRPCError:
    """The credentials are wrong."""
    return GRPCError(Status.UNAUTHENTICATED, "Token validation failed")


BY_APP = {
    "fault-auth": auth,
    "fault-rate-limit": lambda: rate_limit(None),
    "fault-quota": quota,
    "fault-unavailable": unavailable,
}
"""Faults that every create in an App of this name meets; that of the credentials also meets its look-up."""
