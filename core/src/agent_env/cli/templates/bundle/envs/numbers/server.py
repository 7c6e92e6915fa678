"""The env: a number that can be incremented and doubled. One process, so one object, for each episode."""

from __future__ import annotations

from collections import deque
from typing import Any

from agent_env.env import Env, ExtensionError, ToolError, extension, get_data, reset_data, tool

HIGHEST = 10_000


class Numbers(Env, name="numbers"):
    """A number on its way to a target."""

    def __init__(self) -> None:
        self.reset()

    @reset_data
    def reset(self) -> None:
        """Forget the task."""
        self.value = 0
        self.target = 0
        self.moves = 0
        self.fewest = 0

    # -- what the agent may do ----------------------------------------------------------------------------------------

    @tool
    def look(self) -> dict[str, int]:
        """The number now, the target, and the moves made so far. Looking is no move."""
        return {"value": self.value, "target": self.target, "moves": self.moves}

    @tool
    def increment(self) -> int:
        """Add one to the number; answers the number."""
        return self._move(self.value + 1)

    @tool
    def double(self) -> int:
        """Double the number; answers the number."""
        return self._move(self.value * 2)

    def _move(self, value: int) -> int:
        if value > HIGHEST:
            raise ToolError(f"the number cannot be higher than {HIGHEST}; it stays {self.value}")
        self.value = value
        self.moves += 1
        return value

    # -- what a task and its verifier may do --------------------------------------------------------------------------

    @extension("urn:numbers:start/v1")
    def start(self, start: int, target: int) -> dict[str, Any]:
        """Begin a task."""
        if not 1 <= start < target <= HIGHEST:
            raise ExtensionError(f"expected 1 <= start < target <= {HIGHEST}, not {start} and {target}")
        self.value, self.target, self.moves = start, target, 0
        self.fewest = fewest_moves(start, target)
        return {"fewest": self.fewest}

    @get_data
    def state(self) -> list[dict[str, Any]]:
        """What the verifier judges."""
        data = {"value": self.value, "target": self.target, "moves": self.moves, "fewest": self.fewest}
        return [{"kind": "data", "data": data}]


def fewest_moves(start: int, target: int) -> int:
    """The least number of moves from ``start`` to ``target``."""
    waiting = deque([(start, 0)])
    seen = {start}
    while waiting:
        value, moves = waiting.popleft()
        if value == target:
            return moves
        for after in (value + 1, value * 2):
            if after <= target and after not in seen:
                seen.add(after)
                waiting.append((after, moves + 1))
    raise ValueError(f"{target} cannot be reached from {start}")


if __name__ == "__main__":
    Numbers.serve()
