"""The folders of a bundle: which entries there are, and names that look like an entry but are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent_env.bundle.names import folded, segment_problem
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from agent_env.bundle.findings import Findings

FOLDER_KINDS: Final = ("envs", "agents", "artifacts", "skills")
FILE_KINDS: Final = {"tasks": ".json", "evals": ".toml"}
KINDS: Final = (*FOLDER_KINDS, *FILE_KINDS)
SEEDS_SUFFIX: Final = ".seeds.jsonl"


def ignored(name: str) -> bool:
    """Whether an entry of this name is never read."""
    return name.startswith(".") or name == "__pycache__"


def entries(folder: Path) -> list[Path]:
    """What a folder holds, sorted by name, without what is ignored."""
    return sorted((entry for entry in folder.iterdir() if not ignored(entry.name)), key=lambda entry: entry.name)


def entries_of(folder: Path, report: Callable[..., None]) -> list[Path]:
    """As `entries`; a folder that cannot be read is reported and empty."""
    try:
        return entries(folder)
    except OSError as error:
        report(folder, f"cannot be read: {error.strerror or error}")
        return []


def near_misses(names: Iterable[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Names that differ from a known one by case only, with the known one."""
    by_folded = {folded(name): name for name in known}
    return [(name, by_folded[folded(name)]) for name in names if by_folded.get(folded(name), name) != name]


def scan(root: Path, findings: Findings) -> dict[str, dict[str, Path]]:
    """The entries of each kind by name: folders of envs, agents, artifacts and skills, files of tasks and evals.

    Raises:
        BundleError: the folder cannot be read or is no bundle.
    """
    try:
        top = entries(root)
    except NotADirectoryError:
        raise BundleError(f"{root} is a file; a bundle is a folder") from None
    except OSError as error:
        raise BundleError(f"the bundle {root} cannot be read: {error.strerror or error}") from None
    names = [entry.name for entry in top]
    if "bundle.toml" in names:
        findings.bundle(root / "bundle.toml", "this name is reserved; a bundle has no manifest, so remove the file")
    for name, known in near_misses(names, [*KINDS, "aliases.toml", "bundle.toml"]):
        findings.bundle(root / name, f"is not read; did you mean {known!r}?")
    if not any(kind in names for kind in KINDS):
        hint = f" (found {', '.join(names[:8])})" if names else " (it is empty)"
        problems = tuple(findings.fatal)
        raise BundleError(f"{root} is no bundle: it has none of the folders {', '.join(KINDS)}{hint}", problems)
    found: dict[str, dict[str, Path]] = {}
    for kind in KINDS:
        folder = root / kind
        found[kind] = {}
        if kind not in names:
            continue
        if not folder.is_dir():
            problem = "is a broken link" if not folder.exists() else "is a file; it has to be a folder"
            findings.bundle(folder, problem)
            continue
        try:
            inside = entries(folder)
        except OSError as error:
            findings.bundle(folder, f"cannot be read: {error.strerror or error}")
            continue
        found[kind] = _folders(inside, findings) if kind in FOLDER_KINDS else _files(kind, inside, findings)
        _check_names(kind, found[kind], findings)
    for name in sorted(found["artifacts"].keys() & found["skills"].keys()):
        findings.bundle(found["skills"][name], f"{name!r} is also the name of an artifact; they share one store")
    return found


def _folders(inside: list[Path], findings: Findings) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in inside:
        if entry.is_symlink() and not entry.exists():
            findings.bundle(entry, "is a broken link")
        elif entry.is_dir():
            found[entry.name] = entry
    return found


def _files(kind: str, inside: list[Path], findings: Findings) -> dict[str, Path]:
    suffix = FILE_KINDS[kind]
    found: dict[str, Path] = {}
    for entry in inside:
        name = entry.name
        if entry.is_symlink() and not entry.exists():
            findings.bundle(entry, "is a broken link")
        elif entry.is_dir():
            findings.bundle(entry, f"is a folder; {kind} are files named <name>{suffix}")
        elif not entry.is_file():
            findings.bundle(entry, "is no regular file")
        elif name.endswith(suffix):
            found[name.removesuffix(suffix)] = entry
        elif folded(name).endswith(suffix):
            findings.bundle(entry, f"is not read; the suffix has to be {suffix!r}")
    return found


def _check_names(kind: str, found: dict[str, Path], findings: Findings) -> None:
    seen: dict[str, str] = {}
    for name, path in found.items():
        wrong = segment_problem(name)
        if wrong is not None:
            findings.bundle(path, wrong)
        other = seen.setdefault(folded(name), name)
        if other != name:
            findings.bundle(path, f"{name!r} and {other!r} are one name on some file systems; rename one")
        if kind in {"artifacts", "skills"} and "__" in name:
            findings.bundle(path, f"{name!r} holds '__', which is reserved for derived ids; rename it")


def seed_files(folder: Path, tasks: dict[str, Path], findings: Findings) -> dict[str, Path]:
    """The seed files by task name; reports those without a task and names that look like one."""
    found: dict[str, Path] = {}
    if not folder.is_dir():
        return found
    for entry in entries(folder):
        name = entry.name
        if name.endswith(SEEDS_SUFFIX) and entry.is_file():
            task = name.removesuffix(SEEDS_SUFFIX)
            if task in tasks:
                found[task] = entry
            else:
                findings.bundle(entry, f"has no task: there is no file {task}.json beside it")
        elif folded(name).endswith((SEEDS_SUFFIX, ".seed.jsonl", ".seeds.json")) and not name.endswith(".json"):
            findings.bundle(entry, f"is not read; a seed file is named <task>{SEEDS_SUFFIX}")
        elif name.endswith(".jsonl") and name.removesuffix(".jsonl") in tasks:
            findings.note(entry, f"is not read; a seed file is named <task>{SEEDS_SUFFIX}")
    return found
