"""Steps that deploy or reset envs and sandboxes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from agent_env.bundle.steps.fields import Many, NotPlayed, Positive, Text, Version  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import Field, model_validator


class DeployEnv(StepModel):
    """Deploys an env; later steps find it by ``env_id`` or, as ``env_step_id``, by this step's id.

    ``sandbox_type`` `None` or ``"local"`` is the server's own choice of provider, another name means that provider.
    ``cpu`` is in cores, ``memory_mb`` in MiB, ``disk_size_gb`` in GiB (its default counts as not asked for).
    """

    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"env_version", "gateway_mode", "metadata"})

    env_id: Text
    env_version: Version = None
    ttl_seconds: Positive = 7200
    disk_size_gb: Positive = 10
    gateway_mode: Literal["performance", "consistent"] = "performance"
    cpu: Positive | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    sandbox_type: Text | None = None
    env_state_type: NotPlayed = None
    env_state_instance_id: NotPlayed = None
    metadata: dict[str, Any] | None = None
    artifact_id: NotPlayed = None
    artifact_version: NotPlayed = None


class ResetEnv(StepModel):
    """Empties an env's data; best effort unless ``fail_task_on_error`` is set."""

    env_id: Text
    fail_task_on_error: bool = False


class DeploySandbox(StepModel):
    """Deploys a sandbox without an env. The default sizes count as not asked for."""

    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"boot_mode", "exposed_ports", "metadata"})

    sandbox_name: Text
    sandbox_mode: Literal["vm", "container"]
    image: Text | None = None
    cpu: Positive = 1.0
    memory_mb: Annotated[int, Field(gt=0)] = 8192
    disk_size_gb: Positive = 10
    ttl_seconds: Positive = 7200
    exposed_ports: Many[int] | None = None
    boot_mode: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    env_vars: dict[str, str] | None = None
    sandbox_type: Text | None = None
    network_policy: NotPlayed = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _container(self) -> Self:
        if self.sandbox_mode == "container" and (self.image is None or self.port is None):
            raise ValueError("sandbox_mode 'container' needs the fields image and port")
        return self
