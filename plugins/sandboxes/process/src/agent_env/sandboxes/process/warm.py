"""Warm interpreters: zygotes that fork envs, and code hosts that fork verifiers. Each is started once and shared."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxUnavailable
from agent_env.sandboxes.process.keeper.ringlog import read_tail
from agent_env.sandboxes.process.keepers import BOOT, SOURCE, socket_pair
from agent_env.sandboxes.process.link import Link

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from pathlib import Path

    from agent_env.sandboxes.process.link import Held

_START_TIMEOUT = 300.0
_TAIL = 2000


class Unfit(Exception):
    """An env cannot be forked; the message says why. It is spawned instead."""


class Warm:
    """A warm interpreter: the link to its keeper, and the folder that holds its children's folders."""

    def __init__(self, identity: str, folder: Path, link: Link, held: Held) -> None:
        self.id = identity
        self.folder = folder
        self.link = link
        self.held = held
        self.known: set[str] = set()

    @property
    def alive(self) -> bool:
        return self.link.alive and not self.held.exited.done()


def module_of(command: tuple[str, ...], workdir: str) -> str:
    """The module or file that a command runs, as the zygote imports it.

    Raises:
        Unfit: it is no plain ``python file.py`` or ``python -m module``.
    """
    program, *rest = command
    while rest and rest[0] in {"-u", "-B", "-I", "-E", "-s", "-P"}:
        rest.pop(0)
    if posixpath.basename(program).startswith("python"):
        if len(rest) == 2 and rest[0] == "-m" and not rest[1].endswith(".py"):
            return rest[1]
        if len(rest) == 1 and rest[0].endswith(".py"):
            path = posixpath.normpath(posixpath.join(workdir, rest[0]))
            if path.startswith(workdir.rstrip("/") + "/"):
                return posixpath.relpath(path, workdir)
    raise Unfit(f"its command {list(command)} is neither `python FILE.py` nor `python -m MODULE`, without arguments")


async def start(
    spawner: Link,
    identity: str,
    folder: Path,
    request: dict[str, Any],
    kind: str,
    interpreter: str,
    arguments: list[str],
) -> Warm:
    """Start a warm interpreter; ``request`` is a ``spawn`` request whose argv is what comes before the interpreter.

    Raises:
        SandboxUnavailable: it did not come up; Unfit: it came up and cannot fork this env.
    """
    ours, theirs = socket_pair()
    link = Link(ours)
    held = spawner.held(identity)
    argv = [*request["argv"], interpreter, "-P", "-c", BOOT, str(SOURCE), kind, "3", *arguments]
    try:
        with theirs:
            spawner.post(
                {**request, "op": "spawn", "id": identity, "dir": str(folder), "argv": argv}, [theirs.fileno()]
            )
        await asyncio.wait([held.started])
        either: list[asyncio.Future[Any]] = [held.exited, link.hello]
        await asyncio.wait(either, timeout=_START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        hello = link.hello.result() if link.hello.done() else None
        if hello is None:
            await asyncio.wait([held.exited], timeout=1.0)
            tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
            code = held.exited.result() if held.exited.done() else None
            how = f"ended with exit code {code}" if code is not None else held.error or "did not start in time"
            raise SandboxUnavailable(f"the warm interpreter {how}; its output: {tail.strip()}", provider="process")
        if hello["error"]:
            raise Unfit(hello["error"])
    except BaseException:
        link.close()
        spawner.post({"op": "end", "id": identity})
        raise
    # When it is lost, its folder goes, and with it those of its children.
    link.closed.add_done_callback(lambda _: spawner.post({"op": "end", "id": identity}))
    return Warm(identity, folder, link, held)


class WarmPool:
    """The warm interpreters of a provider, by what they are for."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Warm]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Warm]]) -> Warm:
        """The warm interpreter of ``key``; ``make`` starts it when there is none or it was lost.

        An `Unfit` is remembered: it would not become fit by trying again.
        """
        task = self._tasks.get(key)
        if task is not None and task.done() and not self._good(task):
            task = None
        if task is None:

            async def run() -> Warm:
                return await make()

            task = self._tasks[key] = asyncio.create_task(run())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise SandboxUnavailable("the process provider is closing", provider="process") from None
            raise

    @staticmethod
    def _good(task: asyncio.Task[Warm]) -> bool:
        if task.cancelled():
            return False
        error = task.exception()
        return isinstance(error, Unfit) if error is not None else task.result().alive

    async def close(self) -> None:
        """Hang up on all; their keepers end what they hold."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values())
        for task in tasks.values():
            with contextlib.suppress(asyncio.CancelledError, Exception):
                task.result().link.close()
