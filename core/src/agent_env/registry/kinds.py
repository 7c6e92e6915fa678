"""The kinds of things a plugin offers: one hook, one info type and one rule for names each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from agent_env.plugin import CommandInfo, ParserInfo, RewardInfo, SandboxInfo, StepInfo, TrainerInfo

Kind = Literal["sandbox", "reward", "parser", "trainer", "step", "command"]
Info = SandboxInfo | RewardInfo | ParserInfo | TrainerInfo | StepInfo | CommandInfo

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_WORD: Final = r"[a-z0-9]+(?:[-_][a-z0-9]+)*"
_NAME: Final = re.compile(_WORD)
_COMMAND: Final = re.compile(f"{_WORD}(?: {_WORD})?")


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What the registry knows about a kind.

    Attributes:
        kind: its name.
        hook: the hook that returns its infos.
        info: type of an info.
        target: the info's field that holds the import string of the object itself.
        strings: all fields that hold import strings.
        pattern: what a name must match.
        pattern_words: the same in words.
        reserved: names that mean something else where users write them.
    """

    kind: Kind
    hook: str
    info: type[Info]
    target: str = "factory"
    strings: tuple[str, ...] = ("factory",)
    pattern: re.Pattern[str] = _NAME
    pattern_words: str = "lower-case letters and digits, with single dashes or underscores between"
    reserved: frozenset[str] = frozenset()


SPECS: Final[dict[Kind, KindSpec]] = {
    "sandbox": KindSpec("sandbox", "agentenv_sandboxes", SandboxInfo, strings=("factory", "options")),
    "reward": KindSpec("reward", "agentenv_rewards", RewardInfo, reserved=frozenset({"step", "combiner"})),
    "parser": KindSpec("parser", "agentenv_parsers", ParserInfo),
    "trainer": KindSpec("trainer", "agentenv_trainers", TrainerInfo),
    "step": KindSpec("step", "agentenv_steps", StepInfo, target="run", strings=("model", "run")),
    "command": KindSpec(
        "command",
        "agentenv_commands",
        CommandInfo,
        target="command",
        strings=("command",),
        pattern=_COMMAND,
        pattern_words="one or two words of lower-case letters and digits, with one space between them",
    ),
}

HOOKS: Final[dict[str, KindSpec]] = {spec.hook: spec for spec in SPECS.values()}
