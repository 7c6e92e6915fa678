"""The criteria of verifiers."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, cast

from agent_env.bundle.steps.fields import Many, Part, Text  # noqa: TC001, TC002 pydantic reads them
from pydantic import BeforeValidator, Field, field_validator, model_validator

FLAGS = ("ASCII", "A", "IGNORECASE", "I", "MULTILINE", "M", "DOTALL", "S", "UNICODE", "U", "VERBOSE", "X")


class Criterion(Part):
    """What every criterion may say of itself; it becomes a row of the verification. ``criterion`` is its label."""

    criterion: str | None = None
    id: Text | None = None
    weight: Annotated[float, Field(allow_inf_nan=False)] | None = None
    description: str | None = None


class FileExists(Criterion):
    """Every path is a file."""

    type: Literal["probe_file_exists"]
    paths: Annotated[Many[Text], Field(min_length=1)]


class DirExists(Criterion):
    """Every path is a folder."""

    type: Literal["probe_dir_exists"]
    paths: Annotated[Many[Text], Field(min_length=1)]


class FileContains(Criterion):
    """The file holds a match of the regular expression ``expected`` (or ``value``)."""

    type: Literal["probe_file_contains"]
    paths: Annotated[Many[Text], Field(min_length=1, max_length=1)]
    expected: Text | None = None
    value: Text | None = None

    @field_validator("expected", "value")
    @classmethod
    def _regex(cls, value: str | None) -> str | None:
        if value is not None:
            compiled(value)
        return value

    @model_validator(mode="after")
    def _one_pattern(self) -> Self:
        if (self.expected is None) == (self.value is None):
            raise ValueError("give exactly one of expected and value: the regular expression to find")
        return self

    @property
    def pattern(self) -> str:
        """The regular expression."""
        return self.expected or self.value or ""


class BashSucceeds(Criterion):
    """The shell command ends with exit code 0; its working folder is the step's ``base_dir``."""

    type: Literal["bash_cmd_succeeds"]
    bash_cmd: Text


class ResponseContains(Criterion):
    """The reply contains every needle."""

    type: Literal["response_contains"]
    needles: Annotated[Many[Text], Field(min_length=1)]


class ResponseMatches(Criterion):
    """The reply holds a match of ``pattern``; ``flags`` are names of constants of `re`, ``DOTALL`` by default."""

    type: Literal["response_regex_present"]
    pattern: Text
    flags: Annotated[Many[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] | None = (
        None
    )

    @field_validator("flags")
    @classmethod
    def _known(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for flag in value or ():
            if flag not in FLAGS:
                raise ValueError(f"unknown flag {flag!r}; known: {', '.join(FLAGS)}")
        return value

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        self.regex()
        return self

    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return compiled(self.pattern, ("DOTALL",) if self.flags is None else self.flags)


def compiled(pattern: str, flags: tuple[str, ...] = ()) -> re.Pattern[str]:
    """The compiled pattern; a `ValueError` with words when it is not a regular expression."""
    bits = 0
    for flag in flags:
        bits |= cast("re.RegexFlag", getattr(re, flag))
    try:
        return re.compile(pattern, bits)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


SandboxCriterion = Annotated[FileExists | DirExists | FileContains | BashSucceeds, Field(discriminator="type")]
ResponseCriterion = Annotated[ResponseContains | ResponseMatches, Field(discriminator="type")]

SANDBOX_CRITERIA = frozenset({"probe_file_exists", "probe_dir_exists", "probe_file_contains", "bash_cmd_succeeds"})
RESPONSE_CRITERIA = frozenset({"response_contains", "response_regex_present"})
