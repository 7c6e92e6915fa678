"""A click group whose commands come from plugins: listed from their infos, imported when called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from agent_env.errors import NameClash, PluginLoadError, UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_env.registry import Registry
    from click.shell_completion import CompletionItem


def _registry() -> Registry:
    from agent_env.registry import default_registry

    return default_registry()


class PluginGroup(click.Group):
    """The root group, or with a ``prefix`` the group of the two-word commands that start with it."""

    def __init__(self, *args: Any, prefix: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Words that may follow."""
        del ctx
        return sorted({name.partition(" ")[0] for name, _ in self._summaries()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command or group behind a word; imports the command."""
        del ctx
        registry = _registry()
        name = f"{self.prefix} {cmd_name}".strip()
        try:
            registry.info("command", name)
        except UnknownName:
            return self._group(cmd_name)
        loaded: object = registry.load("command", name)
        if not isinstance(loaded, click.Command):
            raise PluginLoadError(
                f"command {name!r} of {registry.provider('command', name)}: "
                f"expected a click.Command, found a {type(loaded).__name__}"
            )
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the nearest command and what failed to load in the error."""
        word = click.utils.make_str(args[0])
        command = self.get_command(ctx, word)
        if command is None and not word.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(self._unknown(word))
        return super().resolve_command(ctx, args) if command is None else (word, command, args[1:])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands of the help page, from the infos alone."""
        del ctx
        rows = list(self._summaries())
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions from the infos alone."""
        from click.shell_completion import CompletionItem

        helps = {name.partition(" ")[0]: summary for name, summary in self._summaries()}
        words = [CompletionItem(word, help=helps[word]) for word in sorted(helps) if word.startswith(incomplete)]
        return [*words, *click.Command.shell_complete(self, ctx, incomplete)]

    def _summaries(self) -> Iterator[tuple[str, str]]:
        """Names behind the prefix and their summaries."""
        registry = _registry()
        for name in registry.names("command"):
            head, _, rest = name.rpartition(" ")
            if not self.prefix or head == self.prefix:
                yield (rest if self.prefix else name), registry.info("command", name).summary

    def _group(self, word: str) -> click.Command | None:
        commands = [name for name in _registry().names("command") if name.startswith(f"{word} ")]
        if self.prefix or not commands:
            return None
        return PluginGroup(
            name=word,
            prefix=word,
            help=f"The {word} commands.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def _unknown(self, word: str) -> str:
        name = f"{self.prefix} {word}".strip()
        try:
            _registry().info("command", name)
        except (UnknownName, NameClash) as error:
            return str(error)
        return f"no command {name!r}"
