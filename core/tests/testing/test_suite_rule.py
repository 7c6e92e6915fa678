"""A standard test of a suite cannot be taken away, only be marked as known to fail."""

from __future__ import annotations

import re
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING
from unittest import SkipTest

import pytest
from agent_env.errors import UsageError
from agent_env.testing.checks import CHECKS, Checks, checks_of, run_checks
from agent_env.testing.parser_suite import ParserSuite
from agent_env.testing.reward_suite import RewardCase, RewardSuite
from agent_env.testing.sandbox_suite import SandboxSuite
from agent_env.testing.step_suite import StepSuite
from agent_env.testing.trainer_suite import TrainerSuite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.testing.suite import Suite

SUITES = [ParserSuite, RewardSuite, SandboxSuite, StepSuite, TrainerSuite]


def nothing(_: object) -> None:
    """A test that tests nothing."""


@pytest.mark.parametrize("suite", SUITES)
def test_a_standard_test_cannot_be_overridden(suite: type[Suite]) -> None:
    for name in suite.standard_tests():
        with pytest.raises(TypeError, match=rf"Mine overrides the standard test {name}"):
            type("Mine", (suite,), {name: nothing})
        with pytest.raises(TypeError, match=name):
            type("Mine", (suite,), {name: None})


def test_a_base_beside_the_suite_cannot_override_either() -> None:
    class Quiet:
        def test_rewards_are_finite_numbers(self) -> None: ...

    with pytest.raises(TypeError, match="test_rewards_are_finite_numbers"):
        type("Mine", (Quiet, RewardSuite), {})
    assert type("Mine", (RewardSuite, Quiet), {})  # here the standard test goes first


def test_a_mark_without_a_reason_is_not_enough() -> None:
    for mark in (pytest.mark.xfail, pytest.mark.xfail(strict=True), pytest.mark.skip(reason="no time")):

        @mark
        def test_it_keeps_no_state(self: RewardSuite) -> None: ...

        with pytest.raises(TypeError, match=r'xfail\(reason="\.\.\."\)'):
            type("Mine", (RewardSuite,), {"test_it_keeps_no_state": test_it_keeps_no_state})


def test_a_test_may_be_known_to_fail_and_tests_may_be_added() -> None:
    class Mine(RewardSuite):
        @pytest.mark.xfail(reason="it learns as it goes")
        def test_it_keeps_no_state(self) -> None:
            super().test_it_keeps_no_state()

        def test_of_my_own(self) -> None: ...

    assert set(Mine.standard_tests()) - set(RewardSuite.standard_tests()) == {"test_of_my_own"}


@pytest.fixture
def run_pytest(tmp_path: Path) -> Callable[[str], str]:
    """``run_pytest(text)`` runs a test file of this text in a process of its own; gives what pytest says."""

    def run(text: str) -> str:
        (tmp_path / "test_mine.py").write_text(dedent(text))
        (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--tb=short", "test_mine.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        return done.stdout

    return run


def counts(said: str) -> dict[str, int]:
    """Outcomes by their word, from pytest's last line."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", said.splitlines()[-1])}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_without_its_fixture_says_so(suite: type[Suite], run_pytest: Callable[[str], str]) -> None:
    module, name = suite.__module__, suite.__name__
    said = run_pytest(f"from {module} import {name}\n\nclass TestMine({name}):\n    pass\n")
    assert counts(said)["errors"] == len(suite.standard_tests())
    assert f"NotImplementedError: give the fixture `{name.removesuffix('Suite').lower()}`" in said


def test_a_subclass_and_a_fixture_are_enough(run_pytest: Callable[[str], str]) -> None:
    said = run_pytest(
        """
        import pytest
        from agent_env.testing.reward_suite import RewardCase, RewardSuite

        class TestMean(RewardSuite):
            @pytest.fixture
            def reward(self):
                return RewardCase("mean", steps=("a", "b"))

        class TestGate(RewardSuite):
            @pytest.fixture
            def reward(self):
                return RewardCase("gate:a>=1,then=b,else=0", steps=("a",), wrong=("gate:a>=1,then=b,else=0",))

            @pytest.mark.xfail(reason="the case names too few steps", strict=True)
            def test_it_fits_the_tasks_steps(self):
                super().test_it_fits_the_tasks_steps()
        """
    )
    found = counts(said)
    assert found["skipped"] == 1  # Mean names no wrong specs
    assert found["xfailed"] == 1
    assert found["passed"] >= 11
    assert "the case names no wrong specs" in said
    # Gate: the wrong spec is none, and everything else that needs the step it lacks.
    assert "the wrong spec 'gate:a>=1,then=b,else=0' was accepted" in said
    assert {"TestGate"} == set(re.findall(r"^_+ (Test\w+)\.", said, re.MULTILINE))


def test_docstrings_say_what_a_check_holds() -> None:
    for suite in SUITES:
        for name, function in suite.standard_tests().items():
            assert function.__doc__, f"{suite.__name__}.{name}"


def test_the_kit_imports_no_pytest_before_a_suite() -> None:
    modules = ["checks", "fakes", "small", "in_process", "reward_checks", "step_checks", "trainer_checks"]
    names = [f"agent_env.testing.{name}" for name in [*modules, "rehearsal_checks", "parser_checks", "sandbox_checks"]]
    code = f"import sys, {', '.join(names)}\nassert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


# -- running checks without pytest ------------------------------------------------------------------------------------


class Some(Checks):
    kind = "reward"

    def test_second_by_name_first_by_place(self) -> None:
        """Passes, once.

        More words.
        """
        assert not hasattr(self, "used")
        self.used = True

    def test_asserts(self) -> None:
        assert self.case == 0, "the case is not 0"

    def test_a_raises(self) -> None:
        raise KeyError("lost")

    def test_skips(self) -> None:
        raise SkipTest("not here")


def test_checks_run_in_their_order_each_on_an_object_of_its_own() -> None:
    first = list(run_checks(Some, 1))
    assert [(one.name, one.status, one.reason.partition("\n")[0]) for one in first] == [
        ("second_by_name_first_by_place", "passed", ""),
        ("asserts", "failed", "the case is not 0"),
        ("a_raises", "failed", "KeyError: 'lost'"),
        ("skips", "skipped", "not here"),
    ]
    assert first[0].summary == "Passes, once."
    assert [one.status for one in run_checks(Some, 0)] == ["passed", "passed", "failed", "skipped"]


def test_every_kind_with_checks_has_them() -> None:
    for kind in CHECKS:
        assert checks_of(kind).kind == kind
        assert len(checks_of(kind).standard_tests()) >= 8
    with pytest.raises(UsageError, match="have no conformance checks; those that have: sandbox, reward"):
        checks_of("command")


def test_a_case_builds_what_its_factory_makes() -> None:
    assert RewardCase("mean:a,b", steps=("a", "b")).build().combine({"a": 1.0, "b": 0.0}, None) == 0.5  # type: ignore[arg-type]
