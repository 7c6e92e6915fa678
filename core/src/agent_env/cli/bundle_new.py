"""``agentenv bundle new``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

TEMPLATE: Final = Path(__file__).parent / "templates" / "bundle"
_NAME: Final = "__NAME__"


@click.command("new")
@click.argument("name", type=click.Path(path_type=Path))
def command(*, name: Path) -> None:
    """Write a small bundle that rehearses into the new folder NAME.

    It has one env, a task with seeds, a verifier, a train and an eval split, and policies to rehearse with.
    """
    write_bundle(name)
    click.echo(f"wrote the bundle {name}")
    click.echo(f"  agentenv bundle check {name}")
    click.echo(f"  agentenv rehearse {name} --policy learner")


def write_bundle(folder: Path) -> None:
    """Write the bundle; ``folder`` must not exist or be empty.

    Raises:
        UsageError: the name cannot be that of a bundle, or the folder cannot be written or holds something.
    """
    from agent_env.bundle.names import segment_problem
    from agent_env.errors import UsageError

    name = folder.absolute().name
    problem = segment_problem(name)
    if problem is not None:
        raise UsageError(f"a bundle cannot have this name: {problem}")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already and is not an empty folder; choose another name")
        for source in sorted(TEMPLATE.rglob("*")):
            if "__pycache__" in source.parts or not source.is_file():
                continue
            target = folder / source.relative_to(TEMPLATE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source.read_text(encoding="utf-8").replace(_NAME, name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from None
