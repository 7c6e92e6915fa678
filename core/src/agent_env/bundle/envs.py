"""Reads ``envs/<name>/``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle.cards import environment_name
from agent_env.bundle.layout import entries_of, near_misses
from agent_env.bundle.model import EnvSpec
from agent_env.bundle.names import did_you_mean, id_problem
from agent_env.bundle.starting import Start, read_start
from agent_env.bundle.tomltext import TomlFile
from agent_env.plugin.sandbox import BuildContext, ImageRef

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.bundle.findings import Findings
    from agent_env.bundle.model import Artifact

_KEYS: Final = ("type", "id", "environment_name", "env_provider_type", "image")
_OTHER_TYPES: Final = ("multi", "website", "computer_driver", "gateway_server", "service_db")


def read_env(
    name: str, folder: Path, root_id: str, find_image: Callable[[str], Artifact | str], findings: Findings
) -> EnvSpec | None:
    """The env of a folder; `None` when it cannot be used, which is then reported."""
    report = partial(findings.entity, "env", name)
    names = [entry.name for entry in entries_of(folder, report)]
    for wrong, known in near_misses(names, ["Dockerfile", "env.toml", "agentenv.toml"]):
        report(folder / wrong, f"is not read; did you mean {known!r}?")
    before = len(findings.entities.get(("env", name), ()))
    own_id, declared_name, image = f"{root_id}/{name}", None, None
    if "env.toml" in names:
        toml = TomlFile(folder / "env.toml", report)
        _check_type(toml)
        own_id = toml.text("id") or own_id
        wrong_id = id_problem(own_id) if "id" in toml.table else None
        if wrong_id is not None:
            toml.problem("id", wrong_id)
        declared_name = toml.text("environment_name")
        image = toml.table.get("image")
        if image is not None:
            image = _image(toml, image, folder, find_image)
    start = read_start(folder / "agentenv.toml", report) if "agentenv.toml" in names else Start()
    if image is None and "Dockerfile" not in names and not start.command and not findings.entities.get(("env", name)):
        report(folder, "has no Dockerfile; add one, or name another image in env.toml")
    if len(findings.entities.get(("env", name), ())) > before or before:
        return None
    return EnvSpec(
        name=name,
        id=own_id,
        type="mcp_server",
        environment_name=declared_name or environment_name(folder),
        image=image or BuildContext(folder),
        path=folder,
        startup_timeout=start.startup_timeout,
    )


def _check_type(toml: TomlFile) -> None:
    kind = toml.table.get("type", "mcp_server")
    if not isinstance(kind, str):
        toml.problem("type", f"'type' has to be a string, not {kind!r}")
        return
    if kind in _OTHER_TYPES:
        toml.problem(
            "type", f"{kind!r} is an env type of the format that AgentEnv does not play; it plays 'mcp_server'"
        )
        return
    if kind != "mcp_server":
        hint = did_you_mean(kind, ["mcp_server", *_OTHER_TYPES]) or "; AgentEnv plays 'mcp_server'"
        toml.problem("type", f"unknown env type {kind!r}{hint}")
        return
    toml.refuse_unknown(_KEYS)
    provider = toml.table.get("env_provider_type", "gateway")
    if provider not in ("gateway", "server"):
        toml.problem("env_provider_type", f"has to be 'gateway' or 'server', which play alike here, not {provider!r}")


def _image(
    toml: TomlFile, value: object, folder: Path, find_image: Callable[[str], Artifact | str]
) -> BuildContext | ImageRef | None:
    if isinstance(value, str):
        found = find_image(value)
        if isinstance(found, str):
            toml.problem("image", found)
            return None
        return found.image
    return table_image(toml, "image", value, folder)


def table_image(toml: TomlFile, key: str, value: object, folder: Path) -> BuildContext | ImageRef | None:
    """``{dockerfile = ...}`` or ``{ref = ...}``; what is wrong is reported."""
    table: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if set(table) == {"dockerfile"} and isinstance(table["dockerfile"], str):
        name = table["dockerfile"]
        inside = (folder / name).resolve().is_relative_to(folder.resolve())
        if not inside or not (folder / name).is_file():
            toml.problem(key, f"there is no file {name!r} in the env's folder")
            return None
        return BuildContext(folder, dockerfile=name)
    if set(table) == {"ref"} and isinstance(table["ref"], str):
        problem = ref_problem(table["ref"])
        if problem is not None:
            toml.problem(key, problem)
            return None
        return ImageRef(table["ref"])
    toml.problem(
        key,
        f'{key!r} has to be {{dockerfile = "..."}}, {{ref = "..."}} or the name of an image artifact, not {value!r}',
    )
    return None


def ref_problem(ref: str) -> str | None:
    """What is wrong with an image reference: its registry has to be spelled."""
    registry, _, rest = ref.partition("/")
    if not rest or not ("." in registry or ":" in registry or registry == "localhost"):
        return f"the image {ref!r} does not spell its registry; write <registry>/<repository>:<tag>"
    if any(character.isspace() for character in ref):
        return f"the image {ref!r} holds white space"
    return None
