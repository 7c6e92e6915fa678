"""Options that the commands share which serve a bundle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def server_options(function: F) -> F:
    """Add --reward, --sandbox and --sandbox-option to a command."""
    for option in reversed(
        [
            click.option(
                "--reward",
                metavar="SPEC",
                help="A scoring step, a combiner (weighted:a=0.7,b=0.3), or FILE.py:FUNCTION, package.module:FUNCTION.",
            ),
            click.option(
                "--sandbox",
                metavar="NAME",
                help="Sandbox provider; NAME,NAME = the next one takes over.  [default: process]",
            ),
            click.option(
                "--sandbox-option",
                "sandbox_options",
                multiple=True,
                metavar="KEY=VALUE",
                help="Option of the provider, also NAME.KEY=VALUE; may be given several times.",
            ),
        ]
    ):
        function = option(function)
    return function


def read_reward(text: str | None) -> Any:
    """A reward as `build_app` takes it: a spec stays a string, FILE.py:FUNCTION and package.module:FUNCTION are loaded.

    Raises:
        UsageError: the file or module cannot be imported or has no such function.
    """
    if text is not None and _names_function(text):
        from agent_env.testing.policies import load_function

        return load_function(text)
    return text


def _names_function(text: str) -> bool:
    where, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        return False
    parts = where.split(".")  # a spec such as gate:a>0.5,then=b:c holds a point too, and is no module
    return where.endswith(".py") or (len(parts) > 1 and all(part.isidentifier() for part in parts))


def read_sandbox_options(pairs: tuple[str, ...], sandbox: str | None) -> dict[str, dict[str, str]]:
    """Options by provider name.

    Raises:
        UsageError: a pair that is no KEY=VALUE, or that does not say which provider of a chain it is for.
    """
    options: dict[str, dict[str, str]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--sandbox-option {pair!r}: write KEY=VALUE or PROVIDER.KEY=VALUE")
        provider, dot, name = key.partition(".")
        if not dot and sandbox is not None and "," in sandbox:
            first = sandbox.partition(",")[0].strip()
            raise UsageError(f"--sandbox-option {pair!r}: say which provider of {sandbox} it is for: {first}.{pair}")
        if not dot:
            provider, name = sandbox or "process", key
        options.setdefault(provider, {})[name] = value
    return options


def read_token(variable: str | None) -> str | None:
    """The token in the environment variable ``variable``.

    Raises:
        UsageError: the variable is not set or empty; the message names the variable only.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if not token:
        raise UsageError(f"--token-var {variable}: that environment variable is not set; export it first")
    return token
