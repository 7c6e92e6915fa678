"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    """The provider and its options, imported when somebody uses them."""
    return [
        SandboxInfo(
            "__NAME__",
            "Sandboxes of __NAME__",
            factory="__MODULE__.provider:__CLASS__",
            options="__MODULE__.options:__CLASS__Options",
        )
    ]
