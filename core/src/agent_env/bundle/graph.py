"""The order of a task's steps: ``depends_on`` absent = after every earlier step, ``[]`` = a root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.bundle.names import did_you_mean, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.plugin.step import StepModel


class StepGraph:
    """Which step runs after which.

    Attributes:
        steps: in file order.
        order: positions in an order that respects the dependencies, file order where they leave a choice; empty
            when they do not make an order.
    """

    def __init__(self, steps: Sequence[StepModel], report: Callable[[StepModel, str, str], None]) -> None:
        """``report(step, field, message)`` takes what is wrong with the dependencies."""
        self.steps = tuple(steps)
        self._position = {step.id: number for number, step in enumerate(self.steps)}
        self._parents = [self._resolved(number, step, report) for number, step in enumerate(self.steps)]
        self._ancestors = [0] * len(self.steps)
        self.order: tuple[int, ...] = self._sorted(report)

    def _resolved(self, number: int, step: StepModel, report: Callable[[StepModel, str, str], None]) -> list[int]:
        if step.depends_on is None:
            return list(range(number))
        parents: list[int] = []
        for name in step.depends_on:
            parent = self._position.get(name)
            if parent is None:
                report(step, "depends_on", f"depends on {name!r}, which is no step{did_you_mean(name, self._position)}")
            elif parent == number:
                report(step, "depends_on", "depends on itself")
            else:
                parents.append(parent)
        return parents

    def _sorted(self, report: Callable[[StepModel, str, str], None]) -> tuple[int, ...]:
        left = list(range(len(self.steps)))
        order: list[int] = []
        done = 0
        while left:
            ready = next((n for n in left if all(done >> parent & 1 for parent in self._parents[n])), None)
            if ready is None:
                names = listing(self.steps[n].id for n in left)
                report(self.steps[left[0]], "depends_on", f"these steps wait for one another: {names}")
                return ()
            for parent in self._parents[ready]:
                self._ancestors[ready] |= self._ancestors[parent] | 1 << parent
            left.remove(ready)
            order.append(ready)
            done |= 1 << ready
        return tuple(order)

    def before(self, first: StepModel, second: StepModel) -> bool:
        """Whether ``second`` runs after ``first`` has ended."""
        return bool(self._ancestors[self._position[second.id]] >> self._position[first.id] & 1)
