"""What hooks return: names, a line of text and import strings (``"package.module:attribute"``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox provider.

    Attributes:
        name: what a user writes after ``--sandbox``; lower-case letters, digits and dashes.
        summary: one line for `agentenv plugins list`.
        factory: ``"package.module:Class"`` of a `agent_env.plugin.sandbox.SandboxProvider`; called with the
            provider's options as keywords.
        options: import string of a pydantic model of those options, or `None` when there are none.
    """

    name: str
    summary: str
    factory: str
    options: str | None = None


@dataclass(frozen=True, slots=True)
class RewardInfo:
    """A reward combiner.

    Attributes:
        name: the word before the colon of a spec such as ``weighted:grade=0.8,format=0.2``.
        summary: one line for `agentenv plugins list`.
        factory: import string of a callable ``build(arguments: str) -> RewardCombiner``; ``arguments`` is what stands
            behind the colon, ``""`` without one. It raises `agent_env.errors.RewardError` for a spec it cannot read.
    """

    name: str
    summary: str
    factory: str


@dataclass(frozen=True, slots=True)
class ParserInfo:
    """A tool-call parser.

    Attributes:
        name: what a user writes after ``--parser``.
        summary: one line for `agentenv plugins list`.
        factory: import string of a callable without arguments that returns a `agent_env.plugin.parser.ToolCallParser`.
        models: names of model families that write this format, for the list.
    """

    name: str
    summary: str
    factory: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainerInfo:
    """A trainer adapter.

    Attributes:
        name: what a user writes after ``--trainer``.
        summary: one line for `agentenv plugins list`.
        factory: import string of a callable without arguments that returns a `agent_env.plugin.trainer.TrainerAdapter`.
    """

    name: str
    summary: str
    factory: str


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A type of task step.

    The fields and the work are two import strings, because reading a bundle must not import what runs it.

    Attributes:
        name: the step's ``type`` in a task file.
        summary: one line for `agentenv plugins list`.
        model: import string of a `agent_env.plugin.step.StepModel` subclass: the step's fields.
        run: import string of ``async def run(step, episode: EpisodeContext) -> None``.
    """

    name: str
    summary: str
    model: str
    run: str


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A sub-command of ``agentenv``.

    Attributes:
        name: one word, or two for a command of a group (``"plugins list"``).
        summary: the line in ``agentenv --help``; shown without importing the command.
        command: import string of a `click.Command`.
    """

    name: str
    summary: str
    command: str
