"""Steps that bring data into envs and sandboxes or run a script of the bundle."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from agent_env.bundle.steps.fields import Many, NotPlayed, Part, Positive, Text, Version  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator


class ArtifactName(Part):
    """An artifact to load, by folder name or id."""

    id: Text
    version: Version = None


class Url(Part):
    """A file to load; its name is the last segment of the URL's path unless ``filename`` gives another."""

    url: Text
    filename: Text | None = None

    @field_validator("url")
    @classmethod
    def _web(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ValueError("expected an http or https address")
        return value

    @field_validator("filename")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None and (value in {".", ".."} or "/" in value or "\\" in value):
            raise ValueError("expected a plain file name without folders")
        return value


def _url(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class LoadArtifact(StepModel):
    """Loads artifacts or URLs into an env, the agent's sandbox or a deployed sandbox."""

    env_id: Text | None = None
    env_step_id: Text | None = None
    artifacts: Annotated[Many[ArtifactName], Field(min_length=1)] | None = None
    artifact_id: Text | None = None
    artifact_version: Version = None
    urls: Annotated[Many[Annotated[Url, BeforeValidator(_url)]], Field(min_length=1)] | None = None
    collected_artifacts_step_id: NotPlayed = None
    artifact_from_step_id: NotPlayed = None
    destination_path: Text | None = None
    agent_name: Text | None = None
    sandbox_name: Text | None = None
    container_name: NotPlayed = None
    snapshot_after_load: NotPlayed = None

    @model_validator(mode="after")
    def _source_and_target(self) -> Self:
        if self.artifact_id is not None and self.artifacts is not None:
            raise ValueError("the fields artifact_id and artifacts exclude each other")
        if self.artifact_id is None and self.artifacts is None and self.urls is None:
            raise ValueError("nothing to load: give artifact_id, artifacts or urls")
        if self.env_id is None and self.agent_name is None and self.sandbox_name is None:
            raise ValueError("no target: give env_id, agent_name or sandbox_name")
        return self

    @property
    def artifact_names(self) -> tuple[str, ...]:
        """The artifacts to load, in order."""
        if self.artifact_id is not None:
            return (self.artifact_id,)
        return tuple(artifact.id for artifact in self.artifacts or ())


class RunCode(StepModel):
    """Runs ``entrypoint`` of a script and keeps its value under ``result_id``, by default the step's id."""

    script_artifact_id: Text
    entrypoint: Text = "run"
    script_artifact_version: Version = None
    script_file: Text | None = None
    args: JsonValue = None
    result_id: Text | None = None
    timeout_seconds: Positive | None = None
    env_id: Text | None = None
    agent_name: Text | None = None
    sandbox_name: Text | None = None

    @field_validator("entrypoint")
    @classmethod
    def _function(cls, value: str) -> str:
        if not value.isidentifier():
            raise ValueError("expected the name of a Python function")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = [self.env_id, self.agent_name, self.sandbox_name]
        if sum(place is not None for place in places) > 1:
            raise ValueError("give at most one of env_id, agent_name and sandbox_name")
        return self
