"""The frame of the command line: global options, and how every command ends."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from agent_env.cli.errors import exit_code_of, flush_stdout, silence_stdout
from agent_env.cli.group import PluginGroup

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_DISABLE = "AGENTENV_DISABLE_PLUGINS"
_COMPLETE = "_AGENTENV_COMPLETE"


@dataclass
class Settings:
    """What the global options say; every command can find it with `click.Context.find_object`."""

    debug: bool = False


def _set_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    context.ensure_object(Settings).debug = value


def _set_no_plugins(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        os.environ[_DISABLE] = "*"


def _show_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        from importlib.metadata import version

        click.echo(f"agentenv {version('agentenv-core')}")
        context.exit()


@click.group(
    cls=PluginGroup,
    name="agentenv",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Switch plugins off with AGENTENV_DISABLE_PLUGINS=name,name or allow only some with AGENTENV_PLUGINS.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "--no-plugins",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_no_plugins,
    help="Use the core alone, also in processes that the command starts.",
)
@click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_debug,
    envvar="AGENTENV_DEBUG",
    show_envvar=True,
    help="Show tracebacks of errors.",
)
def root() -> None:
    """Serve bundles of environments over OpenEnv and play their tasks from RL trainers."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    0 = done; 1 = an error, said on stderr in one message; 2 = wrong usage; 130 = interrupted. Only an exception that
    is neither an `AgentEnvError` nor one of click's leaves with a traceback: it is a bug.
    """
    settings = Settings()
    disabled = os.environ.get(_DISABLE)
    try:
        return flush_stdout(_invoke(arguments, settings))
    except BrokenPipeError:
        silence_stdout()
        return 1
    finally:
        if disabled is None:
            os.environ.pop(_DISABLE, None)
        else:
            os.environ[_DISABLE] = disabled


def _invoke(arguments: Sequence[str], settings: Settings) -> int:
    try:
        with root.make_context("agentenv", list(arguments), obj=settings) as context:
            root.invoke(context)
    except BrokenPipeError:
        raise
    except BaseException as error:
        code = exit_code_of(error, debug=settings.debug)
        if code is None:
            raise
        return code
    return 0


def main() -> NoReturn:
    """The console script."""
    instruction = os.environ.get(_COMPLETE)
    if instruction:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(root, {}, "agentenv", _COMPLETE, instruction))
    sys.exit(run(sys.argv[1:]))
