"""Specs of sandboxes that serve nothing: machines to work in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.sandbox import HostImage, ImageRef, Resources, SandboxSpec

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Capabilities, Image

PLAIN_IMAGE = "python:3.11-slim"
"""What a provider of containers or machines runs where the task names no image."""


def machine(label: str, episode_id: str, *, resources: Resources | None = None, ttl_s: float = 7200.0) -> SandboxSpec:
    """A machine to work in; the deployer puts in what its provider has for one."""
    return SandboxSpec(
        image=HostImage(),
        serves=False,
        resources=resources or Resources(),
        ttl_s=ttl_s,
        label=label,
        labels={"episode": episode_id},
    )


def machine_image(capabilities: Capabilities) -> Image:
    """What a provider runs as a machine: the host's own programs, or a plain image where it isolates further."""
    if capabilities.isolation in {"none", "shared", "namespace"}:
        return HostImage()
    return ImageRef(PLAIN_IMAGE)
