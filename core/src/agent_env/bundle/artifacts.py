"""Reads ``artifacts/<name>/``, ``agents/<name>/`` and ``skills/<name>/``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_env.bundle.envs import ref_problem, table_image
from agent_env.bundle.layout import entries_of, ignored, near_misses
from agent_env.bundle.model import Artifact
from agent_env.bundle.names import did_you_mean, id_problem
from agent_env.bundle.tomltext import TomlFile
from agent_env.plugin.sandbox import BuildContext, ImageRef

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.bundle.findings import Findings

TYPES: Final = ("file", "file_artifact_universe", "docker_image", "environment", "environment_universe", "skill", "cli")
_KEYS: Final = ("type", "id", "description", "ref", "environment_name", "file")
_AGENT_KEYS: Final = ("type", "id", "image", "default_env_vars", "metadata")


def read_artifact(name: str, folder: Path, root_id: str, findings: Findings) -> Artifact | None:
    """The artifact of a folder; `None` when it cannot be used, which is then reported."""
    report = partial(findings.entity, "artifact", name)
    names = [entry.name for entry in entries_of(folder, report)]
    for wrong, known in near_misses(names, ["Dockerfile", "artifact.toml"]):
        report(folder / wrong, f"is not read; did you mean {known!r}?")
    files = _files(folder, report)
    has_dockerfile = "Dockerfile" in names
    kind = "docker_image" if has_dockerfile else "file" if len(files) == 1 else "file_artifact_universe"
    own_id, file, image = f"{root_id}/{name}", None, BuildContext(folder) if has_dockerfile else None
    ref: str | None = None
    toml = TomlFile(folder / "artifact.toml", report) if "artifact.toml" in names else None
    if toml is not None:
        toml.refuse_unknown(_KEYS)
        declared = toml.table.get("type", kind)
        if not isinstance(declared, str):
            toml.problem("type", f"'type' has to be a string, not {declared!r}")
        elif declared not in TYPES:
            toml.problem("type", f"unknown artifact type {declared!r}{did_you_mean(declared, TYPES)}")
        else:
            kind = declared
        own_id = toml.text("id") or own_id
        wrong_id = id_problem(own_id) if "id" in toml.table else None
        if wrong_id is not None:
            toml.problem("id", wrong_id)
        toml.text("environment_name")
        ref = toml.text("ref")
        if ref is not None and ref_problem(ref) is not None:
            toml.problem("ref", ref_problem(ref) or "")
    if kind == "docker_image":
        if ref is None and not has_dockerfile:
            report(folder, "is of type docker_image; it needs a Dockerfile or, in artifact.toml, a 'ref'")
        final_image = ImageRef(ref) if ref is not None else image
        file = None
    else:
        final_image = None
        file = _payload(kind, folder, files, toml, report)
    if findings.entities.get(("artifact", name)):
        return None
    return Artifact(name=name, id=own_id, type=kind, path=folder, files=files, file=file, image=final_image)


def _payload(
    kind: str, folder: Path, files: tuple[Path, ...], toml: TomlFile | None, report: Callable[..., None]
) -> Path | None:
    """The one file that an artifact of type ``file`` or ``environment`` is."""
    if not files:
        report(folder, "holds no file")
        return None
    named = toml.text("file") if toml is not None else None
    if named is not None:
        path = folder / named
        if path not in files:
            shown = [str(file.relative_to(folder)) for file in files]
            report(folder / "artifact.toml", f"there is no file {named!r} in the artifact{did_you_mean(named, shown)}")
            return None
        return path
    if kind == "file" and len(files) != 1:
        report(folder, f"is of type file and holds {len(files)} files; it has to hold one")
        return None
    return files[0] if kind in {"file", "environment"} and len(files) == 1 else None


def _files(folder: Path, report: Callable[..., None]) -> tuple[Path, ...]:
    found: list[Path] = []
    seen: set[str] = set()
    unreadable = partial(_unreadable, report)
    for where, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        seen.add(os.path.realpath(where))
        folders[:] = sorted(name for name in folders if not ignored(name))
        folders[:] = [name for name in folders if os.path.realpath(Path(where) / name) not in seen]
        for name in [*names, *folders]:
            path = Path(where) / name
            if ignored(name):
                continue
            if path.is_symlink() and not path.exists():
                report(path, "is a broken link")
            elif path.is_file() and path != folder / "artifact.toml":
                found.append(path)
    return tuple(sorted(found))


def _unreadable(report: Callable[..., None], error: OSError) -> None:
    report(Path(error.filename), f"cannot be read: {error.strerror or error}")


def check_agent(name: str, folder: Path, findings: Findings) -> None:
    """Report what is wrong with an agent's folder. Its image is never built: the trained model is the agent."""
    report = partial(findings.entity, "agent", name)
    names = [entry.name for entry in entries_of(folder, report)]
    for wrong, known in near_misses(names, ["Dockerfile", "agent.toml"]):
        report(folder / wrong, f"is not read; did you mean {known!r}?")
    if "agent.toml" in names:
        toml = TomlFile(folder / "agent.toml", report)
        toml.refuse_unknown(_AGENT_KEYS)
        if not isinstance(toml.table.get("type", ""), str):
            toml.problem("type", f"'type' has to be a string, not {toml.table['type']!r}")
        image = toml.table.get("image")
        if image is not None and not isinstance(image, str):
            table_image(toml, "image", image, folder)
        for key in ("default_env_vars", "metadata"):
            if not isinstance(toml.table.get(key, {}), dict):
                toml.problem(key, f"{key!r} has to be a table")
    elif "Dockerfile" not in names:
        report(folder, "has neither a Dockerfile nor an agent.toml")


def check_skill(name: str, folder: Path, findings: Findings) -> None:
    """Report what is wrong with a skill's folder."""
    report = partial(findings.entity, "skill", name)
    names = [entry.name for entry in entries_of(folder, report)]
    if "SKILL.md" not in names:
        wrong = near_misses(names, ["SKILL.md"])
        report(folder, "has no SKILL.md" + (f"; rename {wrong[0][0]!r}" if wrong else ""))
    _files(folder, report)
