"""Which parts of a bundle other readers of the public format refuse or read differently."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Final

from agent_env.bundle.cards import declares_card
from agent_env.bundle.layout import SEEDS_SUFFIX
from agent_env.bundle.names import id_root, segment_problem
from agent_env.bundle.steps import BUILTIN
from agent_env.bundle.steps.agent import PromptAgent
from agent_env.bundle.steps.verify import (
    AgentPromptResponseVerifier,
    AggregateVerifiers,
    EnvOutcomeVerifier,
    VerifierModel,
)
from agent_env.bundle.substitute import SEED
from agent_env.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent_env.bundle.bundle import Bundle
    from agent_env.bundle.model import EnvSpec
    from agent_env.bundle.template import TaskTemplate

_GLOB: Final = re.compile(r"[*?\[/]")


def portability(bundle: Bundle) -> Iterator[Problem]:
    """What stands in the way of other readers, file by file."""
    for part in id_root(bundle.path).split("/"):
        problem = segment_problem(part)
        if problem is not None:
            yield from _one(bundle.path, f"the folder's path makes an id that is refused: {problem}", bundle.path)
    for env in bundle.envs.values():
        yield from _env(bundle.path, env)
    for template in bundle.templates.values():
        yield from _task(bundle.path, template)
    for file in sorted((bundle.path / "evals").glob("*.toml")):
        for name in tomllib.loads(file.read_text(encoding="utf-8"))["tasks"]:
            if _GLOB.search(name):
                yield from _one(
                    file, f"{name!r} is no name of a task file; globs and seeded tasks are extensions", bundle.path
                )


def _one(path: Path, message: str, root: Path, *, step: str | None = None, task: str | None = None) -> list[Problem]:
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return [Problem(shown, message, step=step, task=task)]


def _env(root: Path, env: EnvSpec) -> Iterator[Problem]:
    toml = env.path / "env.toml"
    declared = toml.is_file() and "environment_name" in tomllib.loads(toml.read_text(encoding="utf-8"))
    if not declared and not declares_card(env.path):
        yield from _one(env.path, "has no 'environment_name' that other readers find: write it in env.toml", root)
    if not (env.path / "Dockerfile").is_file() and not toml.is_file():
        yield from _one(
            env.path, "has neither a Dockerfile nor an env.toml; only agentenv.toml says how to start it", root
        )


def _task(root: Path, template: TaskTemplate) -> Iterator[Problem]:
    name = template.name
    if template.seeded:
        seeds = root / template.path.parent / f"{name}{SEEDS_SUFFIX}"
        yield from _one(seeds, "is an extension: its rows are not read, and placeholders stay as text", root, task=name)
    elif SEED in template.placeholders:
        yield from _one(root / template.path, "<seed> is filled only when the run is given a seed", root, task=name)
    implicit = {
        step.verification for step in template.steps if isinstance(step, VerifierModel) and not step.verifier_id
    }
    turns = {step.id for step in template.steps if isinstance(step, PromptAgent) and not step.prompt_id}
    for step in template.steps:
        if step.type not in BUILTIN:
            yield from _one(
                root / template.path, f"{step.type!r} is a step type of a plugin", root, step=step.id, task=name
            )
        if isinstance(step, AggregateVerifiers):
            for wanted in implicit.intersection(step.verifier_ids):
                message = f"verifier {wanted!r} is named by its step's id; other readers need its verifier_id"
                yield from _one(root / template.path, message, root, step=step.id, task=name)
        if isinstance(step, (EnvOutcomeVerifier, AgentPromptResponseVerifier)) and step.prompt_id in turns:
            message = f"prompt {step.prompt_id!r} is named by its step's id; other readers need its prompt_id"
            yield from _one(root / template.path, message, root, step=step.id, task=name)
