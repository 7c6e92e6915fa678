"""The entry point: names only, nothing heavy is imported."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    return [
        SandboxInfo(
            name="daytona",
            summary="Sandboxes of the Daytona cloud, or of a Daytona of your own",
            factory="agent_env.sandboxes.daytona.provider:DaytonaProvider",
            options="agent_env.sandboxes.daytona.options:DaytonaOptions",
        )
    ]
