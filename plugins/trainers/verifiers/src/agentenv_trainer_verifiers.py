"""What verifiers and prime-rl load: the taskset ``agentenv-trainer-verifiers``, its harness and its environment.

verifiers finds a taskset by a top-level module of the taskset's name; everything is in `agent_env.training.verifiers`.
"""

from __future__ import annotations

from agent_env.training.verifiers.env import BundleEnv
from agent_env.training.verifiers.harness import BundleHarness
from agent_env.training.verifiers.taskset import BundleTaskset

__all__ = ["BundleEnv", "BundleHarness", "BundleTaskset"]
