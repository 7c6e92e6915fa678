"""What `agentenv sandbox ls` and `agentenv sandbox reap` share: asking every installed provider."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
from agent_env.errors import AgentEnvError, SandboxTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import SandboxProvider

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What one provider answered, or why it did not."""

    name: str
    value: T | None
    error: AgentEnvError | None


def provider_options(function: F) -> F:
    """Add --sandbox, --sandbox-option and --timeout to a command."""
    for option in reversed(
        [
            click.option(
                "--sandbox", "names", multiple=True, metavar="NAME", help="Only this provider.  [default: all]"
            ),
            click.option(
                "--sandbox-option",
                "pairs",
                multiple=True,
                metavar="NAME.KEY=VALUE",
                help="Option of a provider; may be given several times.",
            ),
            click.option("--timeout", type=click.FloatRange(min=1), default=60.0, show_default=True, metavar="SECONDS"),
        ]
    ):
        function = option(function)
    return function


def ask(
    names: Sequence[str],
    pairs: tuple[str, ...],
    timeout: float,
    question: Callable[[SandboxProvider], Awaitable[T]],
) -> list[Answer[T]]:
    """Ask the providers side by side; one that cannot answer does not stop the others.

    Raises:
        PluginError: a provider that was named is not installed.
        UsageError: options that are wrong.
    """
    from agent_env.cli.server_options import read_sandbox_options
    from agent_env.registry import default_registry

    registry = default_registry()
    options = read_sandbox_options(pairs, names[0] if len(names) == 1 else None)
    for name in (*names, *options):
        registry.info("sandbox", name)
    chosen = names or registry.names("sandbox")
    return asyncio.run(_ask_all(chosen, options, timeout, question))


async def _ask_all(
    names: Sequence[str],
    options: Mapping[str, Mapping[str, str]],
    timeout: float,
    question: Callable[[SandboxProvider], Awaitable[T]],
) -> list[Answer[T]]:
    return list(await asyncio.gather(*(_ask(name, options, timeout, question) for name in names)))


async def _ask(
    name: str,
    options: Mapping[str, Mapping[str, str]],
    timeout: float,
    question: Callable[[SandboxProvider], Awaitable[T]],
) -> Answer[T]:
    from agent_env.episode.providers import Providers
    from agent_env.registry import default_registry

    try:
        provider = Providers(default_registry(), name, options).make(None)
        try:
            async with asyncio.timeout(timeout):
                return Answer(name, await question(provider), None)
        finally:
            await provider.close()
    except TimeoutError:
        return Answer(name, None, SandboxTimeout(f"{name} did not answer within {timeout:g} s", provider=name))
    except AgentEnvError as error:
        return Answer(name, None, error)


def report(answers: Sequence[Answer[T]], named: Sequence[str]) -> bool:
    """Say which providers did not answer; whether that is an error: one that was named, or none answered."""
    from agent_env.cli.errors import print_error, print_warning

    failed = [answer for answer in answers if answer.error is not None]
    for answer in failed:
        message = f"{answer.name}: {str(answer.error).partition(chr(10))[0]}"
        if answer.name in named:
            print_error(message)
        else:
            print_warning(message)
    return any(answer.name in named for answer in failed) or (bool(failed) and len(failed) == len(answers))
