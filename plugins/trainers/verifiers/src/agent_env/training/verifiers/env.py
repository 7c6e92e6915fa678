"""The environment: one agent, whose harness needs no box of its own."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc"

from __future__ import annotations

import verifiers.v1 as vf  # type: ignore[import-not-found]


class BundleEnvConfig(vf.SingleAgentEnvConfig):
    """As of a single agent, with the local runtime instead of a rented one: the env runs in the bundle's server."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class BundleEnv(vf.Env[BundleEnvConfig]):
    """One agent plays the task."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """One rollout."""
        await agents.agent.run(task)
