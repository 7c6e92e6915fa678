"""The entry point: names only, nothing heavy is imported."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    return [
        SandboxInfo(
            name="process",
            summary="Local processes, isolated with bubblewrap where it works",
            factory="agent_env.sandboxes.process.provider:ProcessProvider",
            options="agent_env.sandboxes.process.options:ProcessOptions",
        )
    ]
