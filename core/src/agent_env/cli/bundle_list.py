"""``agentenv bundle list``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_env.bundle import Bundle


@click.command("list")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of tables.")
def command(*, path: Path, as_json: bool) -> None:
    """List the tasks, splits and toolsets of the bundle in the folder PATH, and what each task scores.

    Tasks that are made from seeds are shown as one line with their number.

    \b
    --json prints an object with the keys
      name         name of the bundle
      description  first line of text of its README.md, or ""
      tasks        list of {name, id, tasks, seeded, placeholders, scores,
                   toolset}: one for each task file; tasks is their number,
                   scores the ids of the steps that record a score
      splits       list of {name, type, tasks}; "all" first
      toolsets     list of {toolset, templates}: tasks that offer the same
                   tools, by name of their task file
      left_out     list of {task, message}: what cannot be played
    Keys are only ever added.
    """  # noqa: D301
    from agent_env.bundle import load_bundle
    from agent_env.cli.output import print_json, print_table

    bundle = load_bundle(path)
    report = describe(bundle)
    if as_json:
        print_json(report)
        return
    click.echo(bundle.name)
    if bundle.description:
        click.echo(bundle.description)
    click.echo()
    print_table(
        ("TASK", "TASKS", "TOOLSET", "SCORES"),
        [
            (
                f"{task['name']}/*" if task["seeded"] else task["name"],
                str(task["tasks"]),
                task["toolset"],
                ", ".join(task["scores"]),
            )
            for task in report["tasks"]
        ],
    )
    click.echo()
    print_table(
        ("SPLIT", "TYPE", "TASKS"), [(split["name"], split["type"], str(split["tasks"])) for split in report["splits"]]
    )
    if report["left_out"]:
        click.echo()
        for problem in report["left_out"]:
            click.echo(f"left out: {problem['message']}")


def describe(bundle: Bundle) -> dict[str, Any]:
    """What ``--json`` prints."""
    toolsets: dict[str, list[str]] = {}
    for name, template in bundle.templates.items():
        toolsets.setdefault(template.toolset, []).append(name)
    return {
        "name": bundle.name,
        "description": bundle.description,
        "tasks": [
            {
                "name": name,
                "id": template.id,
                "tasks": template.size,
                "seeded": template.seeded,
                "placeholders": sorted(template.placeholders),
                "scores": list(template.scoring_steps),
                "toolset": template.toolset,
            }
            for name, template in bundle.templates.items()
        ],
        "splits": [{"name": split.name, "type": split.type, "tasks": len(split)} for split in bundle.splits.values()],
        "toolsets": [{"toolset": toolset, "templates": names} for toolset, names in toolsets.items()],
        "left_out": [{"task": problem.task, "message": str(problem)} for problem in bundle.left_out],
    }
