"""The entry point: names only, nothing heavy is imported."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    return [
        SandboxInfo(
            name="e2b",
            summary="Micro virtual machines of the E2B cloud",
            factory="agent_env.sandboxes.e2b.provider:E2BProvider",
            options="agent_env.sandboxes.e2b.options:E2BOptions",
        ),
        SandboxInfo(
            name="aenv",
            summary="Micro virtual machines of a self-hosted AgentENV server (kvcache-ai), which speaks E2B's API",
            factory="agent_env.sandboxes.e2b.provider:AenvProvider",
            options="agent_env.sandboxes.e2b.options:AenvOptions",
        ),
    ]
