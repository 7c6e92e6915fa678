"""Steps that configure a deployed env."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from agent_env.bundle.steps.fields import Many, Part, Positive, Text  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import Field, model_validator


class Directive(Part):
    """One extension call: ``service`` (or ``environment``) names the env by its ``environment_name``, ``"*"`` all."""

    service: Text | None = None
    environment: Text | None = None
    uri: Text
    args: dict[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.service is None) == (self.environment is None):
            raise ValueError("a directive has exactly one of the fields service and environment")
        return self

    @property
    def target(self) -> str:
        """The named service, or ``"*"``."""
        return self.service or self.environment or "*"


class ApplyServerConfig(StepModel):
    """Calls extensions of an env with settings for this task."""

    env_id: Text
    directives: Annotated[Many[Directive], Field(min_length=1)]
    timeout_seconds: Positive = 30
    tolerate_unadvertised: bool = False


class ModifyEnvToolAccess(StepModel):
    """Disables or enables tools of an env for a role."""

    env_id: Text
    action: Literal["disable", "enable"]
    role: Text
    tools: Annotated[Many[Text], Field(min_length=1)]
