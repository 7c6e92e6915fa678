"""Conformance checks without pytest: the suites run them as tests, ``agentenv plugins check`` runs them as they are.

A check is a method ``test_*`` of a `Checks` class; it works on ``self.case``, raises `AssertionError` when the plugin
breaks its contract and `unittest.SkipTest` with a reason when the plugin says that it cannot do what is checked.
pytest knows both.
"""

from __future__ import annotations

import importlib
import inspect
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from unittest import SkipTest

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from agent_env.registry import Kind, Registry

CHECKS: Final[dict[str, str]] = {
    "sandbox": "agent_env.testing.sandbox_checks:SandboxChecks",
    "reward": "agent_env.testing.reward_checks:RewardChecks",
    "parser": "agent_env.testing.parser_checks:ParserChecks",
    "trainer": "agent_env.testing.rehearsal_checks:TrainerChecks",
    "step": "agent_env.testing.step_checks:StepChecks",
}
"""By kind, the import string of its `Checks` class."""


@dataclass(frozen=True, slots=True)
class Target:
    """An installed plugin that is to be checked.

    Attributes:
        registry: where it is found.
        kind: its kind.
        name: its name.
        arguments: what stands behind the colon, such as the arguments of a reward's spec.
        options: ``KEY=VALUE`` options of the command line.
    """

    registry: Registry
    kind: Kind
    name: str
    arguments: str = ""
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check went; ``reason`` says why it failed or was skipped, ``summary`` what it holds."""

    name: str
    summary: str
    status: Literal["passed", "failed", "skipped"]
    reason: str
    seconds: float


class Checks:
    """Base of the checks of one kind; the methods ``test_*``, in the order in which they are written, are the checks.

    Attributes:
        case: what is checked; its type depends on the kind.
    """

    kind: ClassVar[str]
    case: Any

    @classmethod
    def case_of(cls, target: Target) -> Any:
        """The case for an installed plugin.

        Raises:
            AgentEnvError: the plugin does not load, or more must be said to check it.
        """
        raise NotImplementedError

    @classmethod
    def standard_tests(cls) -> Mapping[str, Callable[..., object]]:
        """The checks by name."""
        found: dict[str, Callable[..., object]] = {}
        for base in reversed(cls.__mro__):
            tests = {name: value for name, value in vars(base).items() if name.startswith("test_") and callable(value)}
            found.update(tests)
        return found


def checks_of(kind: str) -> type[Checks]:
    """The checks of a kind.

    Raises:
        UsageError: the kind has none.
    """
    if kind not in CHECKS:
        raise UsageError(f"plugins of kind {kind!r} have no conformance checks; those that have: {', '.join(CHECKS)}")
    module, _, name = CHECKS[kind].partition(":")
    try:
        loaded: type[Checks] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise UsageError(f"the checks of kind {kind!r} need the module {error.name!r}, which is not there") from error
    return loaded


def run_checks(checks: type[Checks], case: Any, *, only: Collection[str] | None = None) -> Iterator[CheckResult]:
    """Run checks on ``case``, each on an object of its own; an exception of any kind is a failed check.

    Args:
        checks: the checks of a kind.
        case: what they are run on.
        only: names of the checks to run, without ``test_``; `None` = all.
    """
    for name, function in checks.standard_tests().items():
        if only is not None and name.removeprefix("test_") not in only:
            continue
        one = checks()
        one.case = case
        began = time.perf_counter()
        status: Literal["passed", "failed", "skipped"] = "passed"
        reason = ""
        try:
            function(one)
        except SkipTest as skip:
            status, reason = "skipped", str(skip)
        except AssertionError as error:
            status, reason = "failed", str(error) or "an assertion failed"
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises
            status, reason = "failed", f"{type(error).__name__}: {error}"
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        yield CheckResult(name.removeprefix("test_"), summary, status, reason, time.perf_counter() - began)
