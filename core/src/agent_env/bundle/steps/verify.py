"""Steps that score the episode."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, cast

from agent_env.bundle.steps.agent import DEFAULT_AGENT
from agent_env.bundle.steps.criteria import RESPONSE_CRITERIA, ResponseCriterion, SandboxCriterion
from agent_env.bundle.steps.fields import Aggregator, Many, Positive, Text, Version  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import BeforeValidator, Field, model_validator


def _without_response_criteria(value: object) -> object:
    """One list may be split over several verifiers: what another verifier judges is skipped here."""
    if not isinstance(value, list):
        return value
    return [item for item in cast("list[object]", value) if _name(item) not in RESPONSE_CRITERIA]


def _name(item: object) -> str | None:
    name = cast("dict[str, object]", item).get("type") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


class ScoringModel(StepModel):
    """A step that records a score."""

    scores: ClassVar[bool] = True

    verifier_id: Text | None = None

    @property
    def verification(self) -> str:
        """Name of its rows for `AggregateVerifiers`: ``verifier_id``, else the step's id."""
        return self.verifier_id or self.id


class VerifierModel(ScoringModel):
    """A step that scores by rows; `None` as ``score_aggregator`` means the step type's own default."""

    score_aggregator: Aggregator | None = None

    @property
    def aggregator(self) -> Aggregator:
        """The aggregator that applies."""
        return self.score_aggregator or "all_pass"


class EnvOutcomeVerifier(VerifierModel):
    """Awaits ``verify(mcp_url)`` of a Python file of the bundle; its value is the list of rows."""

    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"file_artifact_version"})

    env_id: Text
    file_artifact_id: Text
    file_artifact_version: Version = None
    prompt_id: Text | None = None


class VerifySandbox(VerifierModel):
    """Probes files and commands in the agent's sandbox, or in ``sandbox_name``."""

    criteria: Annotated[Many[SandboxCriterion], BeforeValidator(_without_response_criteria), Field(min_length=1)]
    agent_name: Text | None = None
    sandbox_name: Text | None = None
    base_dir: Text = "/app"
    shell_timeout_seconds: Positive = 120

    @model_validator(mode="after")
    def _one_sandbox(self) -> Self:
        if self.agent_name not in {None, DEFAULT_AGENT} and self.sandbox_name is not None:
            raise ValueError("the fields agent_name and sandbox_name exclude each other")
        return self


class AgentPromptResponseVerifier(VerifierModel):
    """Judges the agent's reply to the prompt ``prompt_id``."""

    prompt_id: Text
    criteria: Annotated[Many[ResponseCriterion], Field(min_length=1)]


class AggregateVerifiers(VerifierModel):
    """Joins the rows of other verifiers and aggregates them (``weighted_average`` by default)."""

    verifier_ids: Annotated[Many[Text], Field(min_length=1)]

    @property
    def aggregator(self) -> Aggregator:
        """The aggregator that applies."""
        return self.score_aggregator or "weighted_average"
