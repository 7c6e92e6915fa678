"""The fields of the step. ``id``, ``type``, ``depends_on`` and ``fail_task_on_error`` come with `StepModel`."""

from __future__ import annotations

from typing import Any, ClassVar

from agent_env.plugin.step import StepModel
from pydantic import Field


class __CLASS__(StepModel):
    """Unknown fields are refused, and values are not converted.

    Attributes:
        env_id: the env, by folder name, id or alias; a `deploy_env` step must come before.
        tool: name of one of its tools.
        arguments: what the tool is called with.
        contains: the text that makes the score 1.
    """

    scores: ClassVar[bool] = True

    env_id: str
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    contains: str
