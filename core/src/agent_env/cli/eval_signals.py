"""Ending a command that plays: what it started is torn down, whoever asks it to stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, in which SIGINT, SIGTERM and SIGHUP cancel ``main`` so that envs and sandboxes end with it.

    A second one is answered, a third ends the process where it stands. Signals that are ignored, as under nohup,
    stay ignored.

    Raises:
        KeyboardInterrupt: SIGINT came.
        click.exceptions.Exit: another signal came; its code is that of a process ended by it.
    """
    got: list[signal.Signals] = []

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        caught = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

        def stop(number: signal.Signals) -> None:
            got.append(number)
            if len(got) == 1:
                task.cancel()
            else:
                click.echo("ending what was started; once more to leave at once", err=True)
                for each in caught:
                    loop.remove_signal_handler(each)
                    signal.signal(each, signal.SIG_DFL)

        for number in caught:
            loop.add_signal_handler(number, stop, number)
        try:
            return await main
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if not got:
            raise
        if got[0] is signal.SIGINT:
            raise KeyboardInterrupt from None
        raise click.exceptions.Exit(128 + got[0]) from None
