"""Steps that configure a deployed env."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from agent_env.bundle.steps.fields import Many, Part, Positive, Text  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import BeforeValidator, Field, model_validator


def _object(value: object) -> object:
    return {} if value is None else value


class Directive(Part):
    """One extension call: ``service`` (or ``environment``) names the env by its ``environment_name``, ``"*"`` all.

    Both fields may be written when they say the same.
    """

    service: Text | None = None
    environment: Text | None = None
    uri: Text
    args: Annotated[dict[str, Any], BeforeValidator(_object)] = Field(default_factory=dict[str, Any])

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.service is None and self.environment is None:
            raise ValueError("a directive needs the field service")
        if None not in {self.service, self.environment} and self.service != self.environment:
            raise ValueError("the fields service and environment of a directive name different envs; leave one out")
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
