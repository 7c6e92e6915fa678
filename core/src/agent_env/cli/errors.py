"""How a command's exception becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, cast

import click
from agent_env.errors import AgentEnvError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = 130


def exit_code_of(error: BaseException, *, debug: bool) -> int | None:
    """Say what is wrong on stderr and return the exit code; `None` = the exception is a bug and goes on."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        if debug:
            traceback.print_exception(error)
        error.show()
        return error.exit_code
    leaves = tuple(_leaves(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        click.echo(err=True)
        return INTERRUPTED
    if isinstance(error, click.Abort):
        click.echo("Aborted.", err=True)
        return 1
    if not all(isinstance(leaf, AgentEnvError) for leaf in leaves):
        return None
    if debug:
        traceback.print_exception(error)
    for message in dict.fromkeys(str(leaf) for leaf in leaves):
        print_error(message)
    return 2 if all(isinstance(leaf, UsageError) for leaf in leaves) else 1


def print_error(message: str) -> None:
    """``error: …`` on stderr, in colour on a terminal."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)


def print_warning(message: str) -> None:
    """``warning: …`` on stderr, in colour on a terminal."""
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {message}", err=True)


def silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere: the reader of our output is gone."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside groups, such as those of an asyncio.TaskGroup."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
