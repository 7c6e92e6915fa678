"""Failures of an episode as verifiers' own errors: each is attributed to the boundary that it crossed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.errors import Failure, FailureKind

CLASSES: Final[Mapping[FailureKind, str]] = {
    "deploy": "SandboxError",
    "env": "ToolsetError",
    "tool_timeout": "ToolsetError",
    "verifier": "TaskError",
    "no_reward": "TaskError",
    "server": "SandboxError",
    "model": "ProviderError",
    "model_timeout": "ProviderError",
    "aborted": "HarnessError",
}
"""Names in ``verifiers.v1``, by kind of failure."""


def error_of(failure: Failure) -> Exception:
    """The error to raise: ``<kind>: <message>``, with ``[retryable]`` behind it where a fresh episode may succeed."""
    vf = importlib.import_module("verifiers.v1")
    words = f"{failure} [retryable]" if failure.retryable else str(failure)
    made: Exception = getattr(vf, CLASSES[failure.kind])(words)
    return made
