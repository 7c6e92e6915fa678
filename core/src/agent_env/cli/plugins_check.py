"""``agentenv plugins check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.registry import Kind, Registry
    from agent_env.testing.checks import CheckResult

KINDS: Final = ("sandbox", "reward", "parser", "trainer", "step")
_COLOURS: Final = {"passed": "green", "failed": "red", "skipped": "yellow"}

_HELP: Final = """Run the conformance checks of an installed plugin, without pytest.

NAME is what users write: a sandbox provider, a parser, a trainer, a step type, or a reward with its arguments
(weighted:a=0.7,b=0.3). They are the checks of the suites in agent_env.testing. The exit code is 1 when one fails.

\b
--option says what a check cannot know, as KEY=VALUE:
  sandbox   the provider's options
  reward    steps=a,b: scoring steps of a task that the spec fits
  trainer   sessions=a,b: session kinds to rehearse with
  step      the step's fields, as JSON or text; reply=... is the agent's answer

\b
--json prints {"kind", "name", "checks": [{"name", "summary", "status",
"reason", "seconds"}]}; status is passed, failed or skipped. Keys are only
ever added.
"""


@click.command("check", help=_HELP)
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), help="Where plugins of several kinds have the name.")
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="May be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of a table.")
def command(*, name: str, kind: str | None, pairs: tuple[str, ...], as_json: bool) -> None:
    """Check one plugin."""
    import logging
    from dataclasses import asdict

    from agent_env.cli.main import Settings
    from agent_env.cli.output import print_json
    from agent_env.registry import default_registry
    from agent_env.testing.checks import Target, checks_of, run_checks

    settings = click.get_current_context().find_object(Settings)
    if settings is None or not settings.debug:
        logging.getLogger("agent_env").setLevel(logging.CRITICAL)  # faults that checks inject are no news
    registry = default_registry()
    word, _, arguments = name.partition(":")
    found = kind_of(registry, word, kind)
    checks = checks_of(found)
    case = checks.case_of(Target(registry, found, word, arguments, read_options(pairs)))
    results: list[CheckResult] = []
    for result in run_checks(checks, case):
        results.append(result)
        if not as_json:
            click.echo(_line(result))
    failed = sum(result.status == "failed" for result in results)
    if as_json:
        body: dict[str, Any] = {"kind": found, "name": name, "checks": [asdict(result) for result in results]}
        print_json(body)
    else:
        skipped = sum(result.status == "skipped" for result in results)
        click.echo(
            f"{found} {name} of {registry.provider(found, word)}: "
            f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped"
        )
    if failed:
        raise click.exceptions.Exit(1)


def kind_of(registry: Registry, name: str, kind: str | None) -> Kind:
    """The kind of the plugin that has this name.

    Raises:
        UsageError: plugins of several kinds have it.
        UnknownName: none has it.
        NameClash: two plugins of one kind claim it.
    """
    from agent_env.errors import UnknownName, UsageError
    from agent_env.registry.kinds import KINDS as ALL

    wanted: list[Kind] = [one for one in ALL if one != "command" and kind in {None, one}]
    found: list[Kind] = []
    for one in wanted:
        try:
            registry.info(one, name)
        except UnknownName:
            if kind is not None:
                raise
        else:
            found.append(one)
    if len(found) > 1:
        raise UsageError(f"{name!r} is a {' and a '.join(found)}: say which with --kind")
    if not found:
        lines = [f"  {one}: {', '.join(registry.names(one)) or 'none'}" for one in wanted]
        raise UnknownName("\n".join([f"no plugin is called {name!r}; installed:", *lines]))
    return found[0]


def read_options(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """``KEY=VALUE`` pairs by key.

    Raises:
        UsageError: a pair that is none.
    """
    from agent_env.errors import UsageError

    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {pair!r}: write KEY=VALUE")
        options[key] = value
    return options


def _line(result: CheckResult) -> str:
    status = click.style(result.status.ljust(7), fg=_COLOURS[result.status])
    words = result.reason if result.status != "passed" else result.summary
    return f"{status}  {result.name.replace('_', ' ').ljust(48)}  {' '.join(words.split())}".rstrip()
