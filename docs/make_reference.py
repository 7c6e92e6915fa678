"""Makes the pages ``docs/plugins/*.md`` from the docstrings and signatures of `agent_env.plugin`.

``python docs/make_reference.py`` writes them; a test holds that what is committed is what the code says.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from agent_env.plugin import hookspecs
from agent_env.registry.kinds import SPECS

FOLDER = Path(__file__).parent / "plugins"
SECTIONS = ("Args", "Attributes", "Class attributes", "Returns", "Raises")


@dataclass(frozen=True)
class Page:
    """One kind of plugin.

    Attributes:
        kind: the kind.
        title: heading.
        module: module of the contract, or `None`.
        names: classes and functions of it, the contract itself first.
        suite: module and class of the conformance suite, or `None`.
        helpers: modules with pieces that plugins of this kind share.
    """

    kind: str
    title: str
    module: str | None = None
    names: tuple[str, ...] = ()
    suite: str | None = None
    helpers: tuple[str, ...] = ()


PAGES = (
    Page(
        "sandbox",
        "Sandbox providers",
        "agent_env.plugin.sandbox",
        (
            "SandboxProvider", "Sandbox", "SandboxSpec", "BuildContext", "ImageRef", "TemplateRef", "HostImage",
            "Resources", "Capabilities", "Endpoint", "ExecResult", "SandboxRecord", "CodeRequest",
        ),
        "agent_env.testing.sandbox_suite:SandboxSuite",
        tuple(
            f"agent_env.plugin.sandboxing.{name}"
            for name in (
                "lease", "leased", "reaping", "creates", "pacing", "patience", "once", "codebox", "scratch", "private",
                "tasks", "sdks", "options",
            )
        ),
    ),
    Page(
        "reward",
        "Reward combiners",
        "agent_env.plugin.reward",
        ("RewardCombiner", "EpisodeFacts"),
        "agent_env.testing.reward_suite:RewardSuite",
    ),
    Page(
        "parser",
        "Tool-call parsers",
        "agent_env.plugin.parser",
        ("ToolCallParser", "StreamParser", "ParsedReply", "CallAttempt", "CallStatus"),
        "agent_env.testing.parser_suite:ParserSuite",
    ),
    Page(
        "trainer",
        "Trainer adapters",
        "agent_env.plugin.trainer",
        ("TrainerAdapter", "RowSettings", "RehearsalPlan", "RehearsalSample", "RehearsalGroup"),
        "agent_env.testing.trainer_suite:TrainerSuite",
    ),
    Page(
        "step",
        "Task steps",
        "agent_env.plugin.step",
        ("StepModel", "EpisodeContext", "EnvHandle"),
        "agent_env.testing.step_suite:StepSuite",
    ),
    Page("command", "Commands"),
)  # fmt: skip


def page(one: Page) -> str:
    """The text of a page."""
    spec = SPECS[one.kind]  # type: ignore[index]
    hook = getattr(hookspecs, spec.hook)
    lines = [f"# {one.title}", "", "*Made from the code by `docs/make_reference.py`: change the docstrings.*", ""]
    lines += [words(inspect.getdoc(hook) or ""), ""]
    if one.kind != "command":
        write, check = f"`agentenv plugins new {one.kind} NAME`", "`agentenv plugins check NAME`"
        lines += [f"Write one with {write}, check it with {check}.", ""]
    lines += [f"Step by step: [tutorial](../tutorials/{one.kind}.md).", ""]
    lines += ["## The hook", "", *code(f"{spec.hook}{signature(hook)}"), *entry(spec.info, "agent_env.plugin")]
    lines += [f"A name is {spec.pattern_words}."]
    if spec.reserved:
        reserved = " and ".join(f"`{name}`" for name in sorted(spec.reserved))
        lines[-1] += f" The names {reserved} have a meaning of their own and cannot be taken."
    lines.append("")
    if one.module is not None:
        module = importlib.import_module(one.module)
        lines += ["## The contract", "", words(inspect.getdoc(module) or ""), ""]
        for name in one.names:
            lines += entry(getattr(module, name), one.module)
    if one.helpers:
        lines += ["## Pieces to build one from", "", "What the providers of this repository share; take what fits.", ""]
        for name in one.helpers:
            lines += [f"### `{name}`", "", words(inspect.getdoc(importlib.import_module(name)) or ""), ""]
    if one.suite is not None:
        lines += suite(one.suite)
    return "\n".join(lines).rstrip() + "\n"


def suite(where: str) -> list[str]:
    """What the conformance suite holds."""
    module, _, name = where.partition(":")
    found = getattr(importlib.import_module(module), name)
    lines = ["## The conformance suite", "", f"`{module}.{name}`; subclass it and give one fixture:", ""]
    text = inspect.getdoc(importlib.import_module(module)) or ""
    lines += code(inspect.cleandoc("\n" + text.partition("::\n")[2].partition("\n\nWhat ")[0]).strip())
    lines += ["| check | what it holds |", "|---|---|"]
    for test, function in found.standard_tests().items():
        meaning = " ".join((inspect.getdoc(function) or "").split())
        lines.append(f"| `{test}` | {words(meaning)} |")
    return [*lines, ""]


def entry(found: Any, module: str) -> list[str]:
    """A class: its docstring, fields and public methods."""
    lines = [f"### `{module}.{found.__name__}`", "", words(inspect.getdoc(found) or ""), ""]
    if isinstance(found, type) and issubclass(found, Enum):
        return [*lines, ", ".join(f"`{one.value}`" for one in found) + ".", ""]
    if is_dataclass(found):
        shown = "\n".join(
            f"{one.name}: {plain(str(one.type))}{default(found, one.name)}" for one in fields(found) if one.init
        )
        return [*lines, *code(shown)]
    declared = [
        f"{name}: {plain(str(kind))}"
        for name, kind in inspect.get_annotations(found).items()
        if not name.startswith("_") and "ClassVar" not in str(kind)
    ]
    if declared:
        lines += code("\n".join(declared))
    for name, method in vars(found).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        prefix = "async def " if inspect.iscoroutinefunction(method) else "def "
        needed = getattr(method, "__isabstractmethod__", False)
        lines += [f"#### `{name}`{'' if not needed else ' (to be written)'}", ""]
        lines += code(f"{prefix}{name}{signature(method)}")
        if text := inspect.getdoc(method):
            lines += [words(text), ""]
    return lines


def default(found: Any, name: str) -> str:
    """`` = value`` of a field, where it is a plain one."""
    value = getattr(found, name, None)
    known = name in vars(found) and not inspect.ismemberdescriptor(value) and isinstance(value, str | int | float)
    if known:
        return f" = {plain(repr(value))}"
    one = next(one for one in fields(found) if one.name == name)
    plain_default = one.default
    return (
        f" = {plain(repr(plain_default))}"
        if isinstance(plain_default, str | int | float | tuple | frozenset | None)
        else ""
    )


class Raw(str):
    """An annotation that is shown as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature(function: Any) -> str:
    """A signature without quotes around annotations, one parameter a line where it is long."""
    found = inspect.signature(function)
    parameters = [one.replace(annotation=Raw(one.annotation)) for one in found.parameters.values()]
    bare = [one.replace(annotation=inspect.Parameter.empty) if one.name == "self" else one for one in parameters]
    text = plain(str(found.replace(parameters=bare, return_annotation=Raw(found.return_annotation))))
    if len(text) <= 90:
        return text
    inside, _, result = text[1:].rpartition(") -> ")
    parts = re.split(r", (?![^\[]*\])", inside)
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {result}"


def plain(text: str) -> str:
    """Annotations as they are written."""
    return text.replace("'", '"').replace("typing.", "").replace("agent_env.plugin.sandbox.", "")


def code(text: str) -> list[str]:
    """A block that is read and not run."""
    return ["```text", text, "```", ""]


def words(text: str) -> str:
    """A docstring as Markdown: double backticks, and the sections as lists."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    lines: list[str] = []
    in_section = in_code = False
    for line in text.splitlines():
        heading = line.rstrip(":")
        if line.endswith("::"):
            lines += [line[:-1].rstrip(":") + ":" if line != "::" else "", "", "```text"]
            in_code = True
        elif in_code and line and not line.startswith(" "):
            lines = [*lines[:-1], "```", "", line] if lines and not lines[-1] else [*lines, "```", line]
            in_code = False
        elif in_code:
            if line or lines[-1] != "```text":
                lines.append(line.removeprefix("    "))
        elif line.endswith(":") and heading in SECTIONS:
            lines += [f"*{heading}*", ""]
            in_section = True
        elif in_section and line.startswith("        "):
            lines[-1] += " " + line.strip()
        elif in_section and line.startswith("    "):
            item = line.strip()
            name, colon, rest = item.partition(": ")
            simple = re.fullmatch(r"[\w.]+(?:, [\w.]+)*", name) is not None
            lines.append(f"- `{name}`: {rest}" if colon and simple else f"- {item}")
        else:
            in_section = in_section and bool(line.startswith(" "))
            lines.append(line)
    if in_code:
        lines.append("```")
    return "\n".join(lines).strip()


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for one in PAGES:
        (FOLDER / f"{one.kind}.md").write_text(page(one), encoding="utf-8")


if __name__ == "__main__":
    main()
