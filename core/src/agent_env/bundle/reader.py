"""Reads a bundle from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.bundle.aliases import read_aliases
from agent_env.bundle.artifacts import check_agent, check_skill, read_artifact
from agent_env.bundle.bundle import Bundle
from agent_env.bundle.description import description
from agent_env.bundle.entities import Entities
from agent_env.bundle.envs import read_env
from agent_env.bundle.evals import TaskNames, read_eval
from agent_env.bundle.findings import Findings
from agent_env.bundle.layout import scan, seed_files
from agent_env.bundle.names import id_root
from agent_env.bundle.step_types import StepTypes
from agent_env.bundle.tasks import TaskReader
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from agent_env.bundle.model import Artifact, Segment
    from agent_env.bundle.seeds import SeedFile
    from agent_env.bundle.step_types import StepRegistry
    from agent_env.bundle.template import TaskTemplate
    from agent_env.errors import Problem


def load_bundle(path: str | Path, registry: StepRegistry | None = None) -> Bundle:
    """Read the bundle in the folder ``path``.

    A task that cannot be played is left out and named in `Bundle.left_out`; the rest serves.

    Args:
        path: the folder.
        registry: where step types of plugins come from; `None` = `agent_env.registry.default_registry`.

    Raises:
        BundleError: the folder cannot be read, the bundle as a whole is wrong, or no task can be played; it holds
            all problems.
    """
    reading = read_folder(Path(path).absolute(), registry)
    return reading.bundle()


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that is in a bundle's folder, right or wrong.

    Attributes:
        tasks: the readers of the task files by name.
        templates: what can be played.
    """

    root: Path
    files: dict[str, dict[str, Path]]
    findings: Findings
    entities: Entities
    tasks: dict[str, TaskReader]
    templates: dict[str, TaskTemplate]
    evals: dict[str, list[Segment]]

    def bundle(self) -> Bundle:
        """The bundle.

        Raises:
            BundleError: as `load_bundle`.
        """
        _refuse(self.root, self.files["tasks"], self.templates, self.findings)
        _note_empty_evals(self.files["evals"], self.evals, self.templates, self.findings)
        return Bundle(
            path=self.root,
            name=self.root.name,
            description=description(self.root),
            entities=self.entities,
            templates=self.templates,
            evals=self.evals,
            left_out=self.findings.tasks,
            unused=_entity_problems(self.findings),
            notes=self.findings.notes,
        )


def read_folder(root: Path, registry: StepRegistry | None = None) -> Reading:
    """Read everything in the folder ``root``.

    Raises:
        BundleError: it cannot be read or is no bundle.
    """
    findings = Findings(root)
    found = scan(root, findings)
    root_id = id_root(root)
    entities = _entities(root, root_id, found, findings)
    seeds = seed_files(root / "tasks", found["tasks"], findings)
    types = StepTypes(registry)
    templates: dict[str, TaskTemplate] = {}
    readers: dict[str, TaskReader] = {}
    names: dict[str, SeedFile | None] = {}
    unreadable: set[str] = set()
    for name, file in found["tasks"].items():
        reader = readers[name] = TaskReader(name, file, seeds.get(name), root, findings, entities)
        template = reader.read(f"{root_id}/{name}", types)
        names[name] = reader.seeds
        if name in seeds and reader.seeds is None:
            unreadable.add(name)
        if template is not None:
            templates[name] = template
    tasks = TaskNames(names, unreadable)
    evals = {name: read_eval(name, file, tasks, findings) for name, file in found["evals"].items()}
    return Reading(root, found, findings, entities, readers, templates, evals)


def _entities(root: Path, root_id: str, found: dict[str, dict[str, Path]], findings: Findings) -> Entities:
    entities = Entities(findings)

    def find_image(name: str) -> Artifact | str:
        problem = entities.problem("artifact", name)
        if problem is not None:
            return problem
        artifact = entities.artifacts[entities.names("artifact")[name]]
        return artifact if artifact.image is not None else f"the artifact {name!r} is no docker_image"

    for name, folder in found["artifacts"].items():
        artifact = read_artifact(name, folder, root_id, findings)
        entities.declare("artifact", name, f"{root_id}/{name}", *([artifact.id] if artifact is not None else []))
        if artifact is not None:
            entities.artifacts[name] = artifact
    for name, folder in found["envs"].items():
        env = read_env(name, folder, root_id, find_image, findings)
        entities.declare("env", name, f"{root_id}/{name}", *([env.id] if env is not None else []))
        if env is not None:
            entities.envs[name] = env
    for name, folder in found["agents"].items():
        entities.declare("agent", name, f"{root_id}/{name}")
        check_agent(name, folder, findings)
    for name, folder in found["skills"].items():
        entities.declare("skill", name, f"{root_id}/{name}")
        check_skill(name, folder, findings)
    if (root / "aliases.toml").exists():
        read_aliases(root / "aliases.toml", {"agents": found["agents"], "envs": found["envs"]}, entities, findings)
    return entities


def _entity_problems(findings: Findings) -> list[Problem]:
    return [problem for problems in findings.entities.values() for problem in problems]


def _refuse(root: Path, files: dict[str, Path], templates: dict[str, TaskTemplate], findings: Findings) -> None:
    problems = findings.causes()
    if findings.fatal:
        raise BundleError(f"the bundle {root} cannot be read:", problems)
    if not files:
        raise BundleError(f"the bundle {root} has no task: there is no file tasks/<name>.json", problems)
    if not templates:
        raise BundleError(f"no task of the bundle {root} can be played:", problems)


def _note_empty_evals(
    files: dict[str, Path], evals: dict[str, list[Segment]], templates: dict[str, TaskTemplate], findings: Findings
) -> None:
    for name, segments in evals.items():
        if not any(segment.template in templates for segment in segments):
            findings.note(files[name], f"no split {name!r} is served: all its tasks are left out")
