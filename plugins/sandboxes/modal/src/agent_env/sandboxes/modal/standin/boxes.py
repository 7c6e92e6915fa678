"""One sandbox of the stand-in: a root file system and the processes in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.sandboxes.modal.standin import builds, rootfs
from agent_env.sandboxes.modal.standin.running import Running
from modal_proto import api_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.sandboxes.modal.standin.builds import BuiltImage

_MARK = "STANDIN_BOX"
_SOCKET = f"{rootfs.TOOLS}/s"
_TICK_S = 0.2


@dataclass(slots=True)
class Order:
    """What a create asked for.

    Attributes:
        name: its name.
        app_id: its App.
        tags: its tags.
        argv: its command, empty = the image's.
        env: its variables.
        port: the port that is led to, 0 = none.
        open_network: whether it sees the machine's network.
        life_s: seconds it lives at most.
        idle_s: seconds it may be idle, 0 = for ever.
    """

    name: str
    app_id: str
    tags: dict[str, str]
    argv: list[str]
    env: dict[str, str]
    port: int
    open_network: bool
    life_s: float
    idle_s: float


@dataclass(slots=True)
class Line:
    """A piece of a log."""

    at: float
    source: int
    data: bytes


class Box:
    """A sandbox."""

    def __init__(self, box_id: str, order: Order, image: BuiltImage, folder: Path) -> None:
        self.id = box_id
        self.task_id = f"ta-{box_id.removeprefix('sb-')}V"
        self.order = order
        self.created_at = time.time()
        self.log: list[Line] = []
        self.execs: dict[str, Running] = {}
        self.connections = 0
        self.status = api_pb2.GenericResult.GENERIC_STATUS_UNSPECIFIED
        self.exit_code = 0
        self.root = folder
        self._image = image
        self._main: Running | None = None
        self._active_at = time.monotonic()
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self.status == api_pb2.GenericResult.GENERIC_STATUS_UNSPECIFIED

    @property
    def socket(self) -> str:
        """Where its server is led to."""
        return str(self.root) + _SOCKET

    async def start(self) -> None:
        """Make its files and run its command."""
        await asyncio.to_thread(builds.copy_root, self._image.root, self.root)
        argv = self._image.entrypoint + (self.order.argv or self._image.cmd)
        if self.order.port:
            inside = [f"{rootfs.TOOLS}/bin/python", "-ISB", f"{rootfs.TOOLS}/inside.py", _SOCKET]
            argv = [*inside, str(self.order.port), *argv]
        self._main = await self._spawn(argv, self._image.workdir, {}, main=True)
        self._watching = asyncio.ensure_future(self._watch())

    async def _spawn(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], *, main: bool = False) -> Running:
        words = argv if main else ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]
        network = self.order.open_network and not self.order.port
        process = await asyncio.create_subprocess_exec(
            *rootfs.command(self.root, list(words), cwd=cwd, network=network),
            env={
                "PATH": rootfs.PATH,
                "HOME": "/root",
                "LANG": "C.UTF-8",
                **self._image.env,
                **self.order.env,
                **env,
                _MARK: self.id,
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return Running(process, self._take_log if main else None)

    def _take_log(self, source: int, piece: bytes) -> None:
        self.log.append(Line(time.time(), source, piece))

    async def exec(self, exec_id: str, argv: Sequence[str], cwd: str, env: Mapping[str, str], timeout: float) -> None:
        """Run a command; a request that comes twice runs it once."""
        if exec_id in self.execs:
            return
        self.touch()
        running = self.execs[exec_id] = await self._spawn(argv, cwd or self._image.workdir, env)
        if timeout:
            asyncio.get_running_loop().call_later(timeout, running.kill)

    def touch(self) -> None:
        """A sign of life."""
        self._active_at = time.monotonic()

    async def _watch(self) -> None:
        """See its command end, its life end, and that it is not idle."""
        statuses = api_pb2.GenericResult
        began = time.monotonic()
        main = self._main
        while self.running and main is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(main.done.wait(), _TICK_S)
            now = time.monotonic()
            if self.connections or any(not one.done.is_set() for one in self.execs.values()):
                self.touch()
            if main.done.is_set():
                self.exit_code = main.code or 0
                failed = self.exit_code != 0
                self.end(statuses.GENERIC_STATUS_FAILURE if failed else statuses.GENERIC_STATUS_SUCCESS)
            elif now - began > self.order.life_s:
                self.end(statuses.GENERIC_STATUS_TIMEOUT)
            elif self.order.idle_s and now - self._active_at > self.order.idle_s:
                self.end(statuses.GENERIC_STATUS_IDLE_TIMEOUT)

    def end(self, status: api_pb2.GenericResult.GenericStatus.ValueType) -> bool:
        """End it, with everything in it; False when it had ended."""
        if not self.running:
            return False
        self.status = status
        self._ending = asyncio.ensure_future(self._end())
        return True

    async def _end(self) -> None:
        await asyncio.to_thread(_kill_all, self.id)
        for one in [self._main, *self.execs.values()]:
            if one is not None:
                await one.close()
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)

    async def close(self) -> None:
        """End it and wait for that."""
        self.end(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)
        for task in (self._watching, self._ending):
            if task is not None:
                await asyncio.wait([task])

    def result(self) -> api_pb2.GenericResult:
        """How it ended, as the wire says it."""
        return api_pb2.GenericResult(status=self.status, exitcode=self.exit_code)


def _kill_all(box_id: str) -> None:
    """Kill what carries the sandbox's mark, until nothing does."""
    mark = f"{_MARK}={box_id}".encode()
    for _ in range(50):
        found = False
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.01)


@dataclass(slots=True)
class Boxes:
    """All sandboxes, also those that ended."""

    by_id: dict[str, Box] = field(default_factory=dict[str, Box])

    def running(self) -> list[Box]:
        """Those that live."""
        return [box for box in self.by_id.values() if box.running]

    def by_name(self, app_id: str, name: str) -> Box | None:
        """The living one with this name in an App."""
        found = (box for box in self.running() if box.order.name == name and box.order.app_id == app_id)
        return next(found, None)

    def by_task(self, task_id: str) -> Box | None:
        """The one with this task."""
        return next((box for box in self.by_id.values() if box.task_id == task_id), None)
