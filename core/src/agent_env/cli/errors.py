"""How a command's exception becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, cast

import click
from agent_env.errors import AgentEnvError, RewardError, UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = 130
WRONG_USAGE = (UsageError, UnknownName, RewardError)
"""What comes of an option or argument: a name that nobody provides and a reward that cannot work are among them."""


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
    if not all(isinstance(leaf, AgentEnvError) or _is_systems(leaf) for leaf in leaves):
        return None
    if debug:
        traceback.print_exception(error)
    for message in dict.fromkeys(map(_message, leaves)):
        print_error(message)
    return 2 if all(isinstance(leaf, WRONG_USAGE) for leaf in leaves) else 1


def print_error(message: str) -> None:
    """``error: …`` on stderr, in colour on a terminal."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)


def print_warning(message: str) -> None:
    """``warning: …`` on stderr, in colour on a terminal."""
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {message}", err=True)


def flush_stdout(code: int) -> int:
    """Write what is still held, where a failure can still be said; returns the exit code."""
    if sys.stdout is None:  # closed by whoever started us  # pyright: ignore[reportUnnecessaryComparison]
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        if code == 0:
            print_error(f"standard output: {error.strerror}")
        return code or 1
    return code


def silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere: the reader of our output is gone."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _is_systems(error: BaseException) -> bool:
    """The operating system said no (disk full, no permission): nobody's bug."""
    return isinstance(error, OSError) and error.errno is not None


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside groups, such as those of an asyncio.TaskGroup."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
