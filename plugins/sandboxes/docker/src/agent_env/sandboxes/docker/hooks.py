"""The entry point: names only, nothing heavy is imported."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    return [
        SandboxInfo(
            name="docker",
            summary="Containers of a local or remote Docker engine",
            factory="agent_env.sandboxes.docker.provider:DockerProvider",
            options="agent_env.sandboxes.docker.options:DockerOptions",
        )
    ]
