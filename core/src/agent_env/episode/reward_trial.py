"""A trial of a user's reward function before anything is served: its mistakes show now and not after an hour."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Final

from agent_env.errors import RewardError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

log = logging.getLogger("agent_env.episode")

TRIAL_SCORE: Final = 0.5
TRIAL_S: Final = 2.0
_MISTAKES: Final = (LookupError, TypeError, AttributeError, NameError, ImportError)
"""What a function raises that is wrong, whatever the scores are; others may come of this one trial's numbers."""


class Trial:
    """Calls a function with every score at 0.5, each time in a thread and an event loop of its own.

    Args:
        name: of the function, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._slow = False

    def problem(self, call: Callable[[], Coroutine[object, object, object]], steps: Sequence[str]) -> str | None:
        """What is wrong with the function for a task with these scoring steps; `None` = nothing that is certain."""
        if self._slow:
            return None
        ended: list[Exception | None] = []

        def run() -> None:
            try:
                asyncio.run(asyncio.wait_for(call(), TRIAL_S))
            except Exception as error:  # noqa: BLE001  a user's function may raise anything
                ended.append(error)
            else:
                ended.append(None)

        thread = threading.Thread(target=run, name=f"trial of {self._name}", daemon=True)
        thread.start()
        thread.join(2 * TRIAL_S)
        if not ended or isinstance(ended[0], TimeoutError):
            self._slow = True
            log.warning("reward function %s did not end within %g s in a trial; it is not checked", self._name, TRIAL_S)
            return None
        return None if ended[0] is None else self._judge(ended[0], steps)

    def _judge(self, error: Exception, steps: Sequence[str]) -> str | None:
        cause = error.__cause__ if isinstance(error, RewardError) and error.__cause__ is not None else error
        there = f"the task's scoring steps: {', '.join(steps) or 'none'}"
        if isinstance(cause, KeyError) and cause.args and cause.args[0] not in steps:
            return f"reward function {self._name} asks for the score of {cause.args[0]!r}; {there}"
        text = f"{error}; tried with every score at {TRIAL_SCORE:g} ({there})"
        if isinstance(cause, (*_MISTAKES, NotANumber)):
            return text
        log.warning("%s: an episode that ends like this has no reward", text)
        return None


class NotANumber(RewardError):
    """A reward that is no number at all, not even an infinite one."""
