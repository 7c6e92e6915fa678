"""What one step names outside its task: envs and artifacts of the bundle. Checked again for every seed row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.bundle.names import did_you_mean, listing
from agent_env.bundle.steps.config import ApplyServerConfig
from agent_env.bundle.steps.deploy import DeployEnv, DeploySandbox
from agent_env.bundle.steps.load import LoadArtifact, RunCode
from agent_env.bundle.steps.verify import EnvOutcomeVerifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_env.bundle.entities import Entities
    from agent_env.bundle.model import Artifact
    from agent_env.plugin.step import StepModel

_NOT_LOADED = frozenset({"docker_image", "skill", "cli"})


def reference_problems(step: StepModel, entities: Entities) -> Iterator[tuple[str, str]]:
    """Field and message for every name of ``step`` that means nothing usable."""
    if isinstance(step, DeployEnv):
        problem = entities.problem("env", step.env_id)
        if problem is not None:
            yield "env_id", problem
    elif isinstance(step, ApplyServerConfig):
        yield from _services(step, entities)
    elif isinstance(step, LoadArtifact):
        field = "artifacts" if step.artifacts is not None else "artifact_id"
        for name in step.artifact_names:
            found = _artifact(name, entities)
            if isinstance(found, str):
                yield field, found
            elif found.type in _NOT_LOADED:
                yield field, f"the artifact {name!r} is of type {found.type!r}, which is not loaded"
            elif found.file is None and len(found.files) != 1 and (step.env_id or step.env_step_id):
                yield field, f"the artifact {name!r} has {len(found.files)} files; an env is loaded with one file"
    elif isinstance(step, EnvOutcomeVerifier):
        found = _artifact(step.file_artifact_id, entities)
        if isinstance(found, str):
            yield "file_artifact_id", found
        elif found.type != "file" or found.file is None:
            kind = f"of type {found.type!r}, with {len(found.files)} files"
            yield "file_artifact_id", f"the artifact {step.file_artifact_id!r} is {kind}; it has to be one Python file"
        elif found.file.suffix != ".py":
            yield "file_artifact_id", f"{found.file.name!r} is no Python file; a verifier is a .py file with verify()"
    elif isinstance(step, RunCode):
        found = _artifact(step.script_artifact_id, entities)
        if isinstance(found, str):
            yield "script_artifact_id", found
        else:
            yield from _script(step, found)
    elif isinstance(step, DeploySandbox) and step.image is not None and entities.folder("artifact", step.image):
        found = _artifact(step.image, entities)
        if isinstance(found, str):
            yield "image", found
        elif found.image is None:
            yield "image", f"the artifact {step.image!r} is of type {found.type!r}, not docker_image"
    elif isinstance(step, DeploySandbox) and step.image is not None and "/" not in step.image:
        hint = did_you_mean(step.image, entities.names("artifact"))
        yield "image", f"{step.image!r} is neither an artifact of the bundle nor <registry>/<repository>:<tag>{hint}"


def _artifact(name: str, entities: Entities) -> Artifact | str:
    """The artifact, or why it cannot be used."""
    problem = entities.problem("artifact", name)
    folder = entities.folder("artifact", name)
    if problem is not None or folder is None:
        return problem or ""
    return entities.artifacts[folder]


def script_file(step: RunCode, artifact: Artifact) -> str | None:
    """Path of the script within its artifact: ``script_file``, else the only ``.py`` file, else the only ``run.py``."""
    scripts = [file.relative_to(artifact.path).as_posix() for file in artifact.files if file.suffix == ".py"]
    if step.script_file is not None:
        return step.script_file if step.script_file in scripts else None
    for candidates in (scripts, [script for script in scripts if script.rpartition("/")[2] == "run.py"]):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _script(step: RunCode, artifact: Artifact) -> Iterator[tuple[str, str]]:
    if script_file(step, artifact) is not None:
        return
    scripts = [file.relative_to(artifact.path).as_posix() for file in artifact.files if file.suffix == ".py"]
    if step.script_file is not None:
        hint = did_you_mean(step.script_file, scripts) or f"; it has: {listing(scripts)}"
        yield "script_file", f"{artifact.name!r} has no Python file {step.script_file!r}{hint}"
    else:
        yield "script_artifact_id", f"which file of {artifact.name!r} runs? It has: {listing(scripts)}; set script_file"


def _services(step: ApplyServerConfig, entities: Entities) -> Iterator[tuple[str, str]]:
    folder = entities.folder("env", step.env_id)
    env = entities.envs.get(folder) if folder is not None else None
    if env is None or env.environment_name is None:
        return  # its name is on its card, which only a running env shows
    for directive in step.directives:
        if directive.target not in {"*", env.environment_name}:
            hint = f"; the env's name is {env.environment_name!r}"
            yield "directives", f"the env {step.env_id!r} has no service {directive.target!r}{hint}"
