"""The checks of a sandbox provider."""

from __future__ import annotations

from agent_env.testing.sandbox_case import Fault, SandboxCase
from agent_env.testing.sandbox_checks_exec import ExecChecks
from agent_env.testing.sandbox_checks_faults import FaultChecks
from agent_env.testing.sandbox_checks_files import FileChecks
from agent_env.testing.sandbox_checks_lease import LeaseChecks
from agent_env.testing.sandbox_checks_life import LifeChecks

__all__ = ["Fault", "SandboxCase", "SandboxChecks"]


class SandboxChecks(FaultChecks, LeaseChecks, FileChecks, ExecChecks, LifeChecks):
    """The contract of `agent_env.plugin.sandbox.SandboxProvider`; they run in the order life, exec, files, leases,
    faults."""
