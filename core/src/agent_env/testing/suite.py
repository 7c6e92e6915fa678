"""What all conformance suites share: a plugin's author subclasses one and gives one fixture.

::

    class TestShortest(RewardSuite):
        @pytest.fixture
        def reward(self) -> RewardCase:
            return RewardCase("shortest:grade", steps=("grade",))

A standard test cannot be taken away: a subclass may override it only with ``@pytest.mark.xfail(reason="…")``.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from agent_env.testing.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Iterable


class Suite(Checks):
    """Base of the suites; holds the rule about overriding."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, standard in _standard(cls).items():
            found: object = inspect.getattr_static(cls, name)
            if found is not standard and not _expected_to_fail(found):
                raise TypeError(
                    f"{cls.__name__} overrides the standard test {name}: a standard test may only be marked as known "
                    f'to fail, with @pytest.mark.xfail(reason="...") on a method that calls super().{name}()'
                )


def _standard(cls: type[Checks]) -> dict[str, object]:
    """The tests of the kit's own classes."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Checks) and base.__module__.startswith("agent_env.testing."):
            found.update({name: value for name, value in vars(base).items() if name.startswith("test_")})
    return found


def _expected_to_fail(test: object) -> bool:
    marks = cast("Iterable[Any]", getattr(test, "pytestmark", ()))
    return callable(test) and any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
