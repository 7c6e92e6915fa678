"""``agentenv plugins new``."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from agent_env.registry import Kind, Registry

TEMPLATE: Final = Path(__file__).parent / "templates" / "plugin"
KINDS: Final = ("sandbox", "reward", "parser", "trainer", "step")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST: Final = 64
_WHAT: Final = {
    "sandbox": "A sandbox provider for AgentEnv",
    "reward": "A reward combiner for AgentEnv",
    "parser": "A tool-call parser for AgentEnv",
    "trainer": "A trainer adapter for AgentEnv",
    "step": "A task step for AgentEnv",
}


@click.command("new")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The package's folder.  [default: ./NAME]")
def command(*, kind: str, name: str, out: Path | None) -> None:
    """Write a package with a plugin that works, and its conformance test.

    NAME is what users of the plugin write and the distribution's name: lower-case letters and digits, with single
    dashes or underscores between. The package imports under a name of its own, NAME with underscores.
    """
    from agent_env.registry import default_registry

    folder = out if out is not None else Path(name)
    write_plugin(kind, name, folder, default_registry())
    shown = folder if folder.is_absolute() else f"./{folder}"
    click.echo(f"wrote the {kind} plugin {name} to {folder}")
    click.echo(f"  pip install {shown}")
    click.echo("  agentenv plugins list")


def write_plugin(kind: str, name: str, folder: Path, registry: Registry | None = None) -> None:
    """Write the package into ``folder``, which must not exist or be an empty folder; all of it or nothing.

    Raises:
        UsageError: the name cannot be that of a plugin, or the folder cannot be written or holds something.
    """
    from agent_env.errors import UsageError

    problem = name_problem(kind, name, registry)
    if problem is not None:
        raise UsageError(problem)
    words = {
        "__DIST__": name,
        "__NAME__": name,
        "__MODULE__": module_of(name),
        "__CLASS__": class_of(name),
        "__SUMMARY__": _WHAT[kind],
    }
    try:
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UsageError(f"{folder} is there already and is not an empty folder; give another one with --out")
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.absolute().parent) as passing:
            whole = Path(passing) / "whole"
            for part in ("common", kind):
                _copy(TEMPLATE / part, whole, words)
            if folder.exists():
                folder.rmdir()
            whole.rename(folder)
    except (OSError, shutil.Error) as error:
        raise UsageError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def module_of(name: str) -> str:
    """The import name."""
    return name.replace("-", "_")


def class_of(name: str) -> str:
    """``acme-box`` as ``AcmeBox``."""
    return "".join(part.capitalize() for part in re.split(r"[-_]", name))


def name_problem(kind: str, name: str, registry: Registry | None = None) -> str | None:
    """Why a plugin of this kind cannot be called ``name``, or `None`.

    Args:
        kind: the plugin's kind.
        name: the name asked for.
        registry: what is installed, for clashes; `None` = not looked at.
    """
    from agent_env.registry.hints import hints
    from agent_env.registry.kinds import SPECS

    if _NAME.fullmatch(name) is None or len(name) > _LONGEST:
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:_LONGEST].strip("-")
        hint = f"; {better!r} would do" if _NAME.fullmatch(better) is not None else ""
        return (
            f"{name!r} cannot be a plugin's name: it starts with a lower-case letter, holds lower-case letters and "
            f"digits with single dashes or underscores between, and has at most {_LONGEST} characters{hint}"
        )
    module = module_of(name)
    if keyword.iskeyword(module) or keyword.issoftkeyword(module) or module in sys.stdlib_module_names:
        return f"{name!r} cannot be a plugin's name: {module!r} is a word of Python or a module of its library"
    if name.replace("_", "-").startswith("agentenv") or module.startswith("agent_env") or module in _taken():
        return f"{name!r} cannot be a plugin's name: it belongs to AgentEnv or to what it needs; use a name of your own"
    wanted: dict[str, Kind] = {spec.kind: spec.kind for spec in SPECS.values()}
    spec = SPECS[wanted[kind]]
    if name in spec.reserved:
        return f"{name!r} cannot be the name of a {kind}: it has a meaning of its own in specs"
    ours = hints(spec.kind)
    if name in ours:
        return f"the {kind} {name!r} belongs to {ours[name]}; use a name of your own"
    if registry is not None and name in registry.names(spec.kind):
        owner = registry.provider(spec.kind, name)
        return f"a {kind} {name!r} is installed already, from {owner}: two plugins cannot share a name"
    return None


def _taken() -> set[str]:
    """Import names of the core's own requirements and of what a plugin's tests use."""
    names = {"pluggy", "pydantic", "click", "rich", "websockets", "httpx", "fastapi", "uvicorn", "pytest", "tests"}
    return {*names, "src", "hatchling", "starlette", "anyio", "openenv", "mcp"}


def _copy(source: Path, target: Path, words: dict[str, str]) -> None:
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts or not path.is_file():
            continue
        to = target / _filled(path.relative_to(source).as_posix(), words)
        if to.name == "gitignore":  # a file of that name with its dot would not get into the wheel
            to = to.with_name(".gitignore")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(_filled(path.read_text(encoding="utf-8"), words), encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
