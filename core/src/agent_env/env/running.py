"""Running an env's own code: async methods on the event loop, sync ones where the server says."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.env.base import Env

Outcome = tuple[Any, BaseException | None]
"""What a call returned, or what it raised."""

RunSync = Callable[[Callable[[], Outcome]], Awaitable[Outcome]]
"""Runs a sync call away from the event loop."""


async def run_here(call: Callable[[], Outcome]) -> Outcome:
    """Run a sync call on the event loop's own thread."""
    return call()


class Runner:
    """Calls the methods of one env object."""

    def __init__(self, env: Env, run_sync: RunSync) -> None:
        self._env = env
        self._run_sync = run_sync

    async def call(self, attribute: str, is_async: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
        """Call a method.

        Raises:
            Exception: what it raised; an attempt to leave the process becomes a `RuntimeError`.
        """
        method = getattr(self._env, attribute)
        if is_async:
            try:
                return await method(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt) as error:
                raise _no_exit(attribute, error) from error
        value, raised = await self._run_sync(lambda: _outcome(method, args, kwargs))
        if raised is None:
            return await value if isawaitable(value) else value  # a decorator may hide that a method is async
        if not isinstance(raised, Exception) or isinstance(raised, StopIteration):
            raise _no_exit(attribute, raised) from raised
        raise raised


def _outcome(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    try:
        return method(*args, **kwargs), None
    except BaseException as error:  # noqa: BLE001 - carried to the loop and raised there
        return None, error


def _no_exit(attribute: str, error: BaseException) -> RuntimeError:
    return RuntimeError(f"{attribute} raised {type(error).__name__}: {error}")


def log_defect(what: str, error: BaseException) -> None:
    """Write an env's defect into its log: the server shows the end of it when an episode fails."""
    sys.stderr.write(f"{what} failed:\n")
    traceback.print_exception(error)
    sys.stderr.flush()
