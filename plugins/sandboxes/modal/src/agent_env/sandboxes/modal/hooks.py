"""The entry point: names only, nothing heavy is imported."""

from __future__ import annotations

from agent_env.plugin import SandboxInfo, hookimpl


@hookimpl
def agentenv_sandboxes() -> list[SandboxInfo]:
    return [
        SandboxInfo(
            name="modal",
            summary="Sandboxes of Modal",
            factory="agent_env.sandboxes.modal.provider:ModalProvider",
            options="agent_env.sandboxes.modal.options:ModalOptions",
        )
    ]
