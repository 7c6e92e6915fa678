"""The loop that every keeper runs: requests in, processes held, logs kept, exits reported, all ended at the end."""

from __future__ import annotations

import contextlib
import heapq
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from agent_env.sandboxes.process.keeper import child, procs, wire
from agent_env.sandboxes.process.keeper.files import count_entries, read_json, remove_tree, write_json
from agent_env.sandboxes.process.keeper.ringlog import RingLog

if TYPE_CHECKING:
    from collections.abc import Callable

_INLINE_REMOVAL = 300
_CHUNK = 65536


def _noticed(number: int, frame: object) -> None:
    """A handler that does nothing: the wake-up descriptor tells the loop."""


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return "unknown"


@dataclass(slots=True)
class Box:
    """A process held, with its folder."""

    id: str
    dir: str | None
    pid: int = 0
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    grace: float = 0.0
    wrapped: bool = False
    of: str | None = None
    log: RingLog | None = None
    pipe: int = -1
    code: int | None = None
    ending: bool = False
    remover: int = 0


class Keeper:
    """Base of all keepers; a subclass adds requests in `handle`."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        control.setblocking(True)
        self.pid = os.getpid()
        self.boxes: dict[str, Box] = {}
        self.by_pid: dict[int, Box] = {}
        self.guests: set[str] = set()  # sandboxes of other keepers in which this one runs commands
        self.selector = selectors.EpollSelector()
        self.done = False
        self._stopping: dict[str, float] = {}  # when the grace of what got SIGTERM is over
        self._expiries: list[tuple[float, str]] = []
        self._namespace = _pid_namespace()
        self.error = ""
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the other end closes; then end everything."""
        child.become_subreaper()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _noticed)
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        self.selector.register(self.control, selectors.EVENT_READ, self._on_control)
        self.selector.register(self._wake_read, selectors.EVENT_READ, self._on_signal)
        self.send({"ev": "hello", "pid": self.pid, "error": self.error})
        try:
            while not self.done:
                for key, _ in self.selector.select(self._next_deadline()):
                    key.data()
                    if self.done:
                        break
                self._deadlines()
        finally:
            self.shutdown()

    def _on_control(self) -> None:
        try:
            received = wire.receive(self.control)
        except OSError:
            received = None
        if received is None:
            self.done = True
            return
        message, fds = received
        try:
            self.handle(str(message.pop("op")), message, fds)
        except Exception as error:  # noqa: BLE001 - whatever a request does, the others' processes stay held
            self.send({"ev": "failed", "id": message.get("id"), "error": f"{type(error).__name__}: {error}"})
        finally:
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def send(self, message: dict[str, Any]) -> None:
        """Tell the server; a closed end means that the server is gone."""
        try:
            wire.send(self.control, wire.encode(message))
        except OSError:
            self.done = True

    def handle(self, op: str, message: dict[str, Any], fds: list[int]) -> None:  # noqa: ARG002
        """A request; ``fds`` are closed after it."""
        if op == "end":
            box = self.boxes.get(message["id"])
            if box is None:
                self.send({"ev": "ended", "id": message["id"]})
            else:
                self.end(box)
        elif op == "kill":
            box = self.boxes.get(message["id"])
            if box is not None and box.code is None:
                procs.kill_tree(box.pid)
        elif op in {"ready", "extend"}:
            box = self.boxes.get(message.pop("id"))
            if box is not None and not box.ending:
                box.meta.update(message, ready=True)
                self.record(box)
                self.send({"ev": "ready", "id": box.id})
        else:
            raise ValueError(f"unknown request {op!r}")

    # -- starting -----------------------------------------------------------------------------------------------------

    def hold(
        self,
        box: Box,
        body: Callable[[], NoReturn],
        *,
        log_limit: int = 0,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Fork a child that runs ``body`` and hold it; output without a descriptor goes to the log of its folder."""
        write_end = -1
        if stderr is None:
            box.pipe, write_end = os.pipe()
            os.set_blocking(box.pipe, False)
            box.log = RingLog(f"{box.dir}/log", log_limit)
            stderr = write_end
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                child.die_with_parent(self.pid)
                # Orphans below it stay below it, so that they are found when it is ended.
                child.become_subreaper()
                child.default_signals()
                child.redirect(stdin, stderr if stdout is None else stdout, stderr)
                body()
            except BaseException as error:  # noqa: BLE001 - nothing may return into the keeper's loop
                with contextlib.suppress(OSError):
                    os.write(2, f"could not start: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(127)
        if write_end >= 0:
            os.close(write_end)
            self.selector.register(box.pipe, selectors.EVENT_READ, lambda: self._read_log(box))
        box.pid = pid
        self.boxes[box.id] = box
        self.by_pid[pid] = box
        if box.dir is not None and box.of is None:
            box.meta.update(pid=pid, pgid=pid, start=procs.start_time(pid), pidns=self._namespace)
            self.record(box)
        self.send({"ev": "started", "id": box.id, "pid": pid})

    def keep(self, box: Box) -> None:
        """Hold a folder without a process; commands may be run in it."""
        self.boxes[box.id] = box
        box.meta.update(pid=0, pidns=self._namespace)
        self.record(box)
        self.send({"ev": "started", "id": box.id, "pid": 0})

    def record(self, box: Box) -> None:
        """Write what others may know of a sandbox, and note when it ends by itself."""
        write_json(f"{box.dir}/meta.json", box.meta)
        if "expires_at" in box.meta:
            heapq.heappush(self._expiries, (box.meta["expires_at"], box.id))

    def own_fds(self) -> list[int]:
        """Descriptors of the keeper that a child which does not exec has to close."""
        fds = [self.control.fileno(), self.selector.fileno(), self._wake_read.fileno(), self._wake_write.fileno()]
        for box in self.boxes.values():
            if box.pipe >= 0:
                fds.append(box.pipe)
            if box.log is not None and box.log.fileno() >= 0:
                fds.append(box.log.fileno())
        return [fd for fd in fds if fd > 2]

    # -- output and exits ---------------------------------------------------------------------------------------------

    def _read_log(self, box: Box, *, rounds: int = 1) -> None:
        for _ in range(rounds):
            try:
                data = os.read(box.pipe, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._close_log(box)
                return
            if box.log is not None:
                box.log.write(data)

    def _close_log(self, box: Box) -> None:
        if box.pipe >= 0:
            self.selector.unregister(box.pipe)
            os.close(box.pipe)
            box.pipe = -1
        if box.log is not None:
            box.log.close()
            box.log = None

    def _on_signal(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_read.recv(4096):
                pass
        self.reap()

    def reap(self) -> None:
        """Wait for every child that ended; the group and descendants of a sandbox's leader end with it."""
        while True:
            try:
                # WNOWAIT keeps the pid ours while its group is signalled.
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            box = self.by_pid.get(info.si_pid)
            if box is not None and box.of is None and box.pid == info.si_pid:
                procs.kill_group(box.pid)
            _, status = os.waitpid(info.si_pid, 0)
            if box is None:
                continue
            del self.by_pid[info.si_pid]
            if box.remover == info.si_pid:
                self._gone(box)
            else:
                self._exited(box, os.waitstatus_to_exitcode(status))

    def _exited(self, box: Box, code: int) -> None:
        box.code = code if code >= 0 else 128 - code
        if box.pipe >= 0:
            self._read_log(box, rounds=64)
        self.kill_strays()
        self.send({"ev": "exit", "id": box.id, "code": box.code})
        if box.of is not None:
            self._gone(box)
        elif box.ending:
            self._remove(box)

    # -- ending -------------------------------------------------------------------------------------------------------

    def end(self, box: Box) -> None:
        """End a sandbox: its leader, the leader's group and descendants, commands run in it, its folder."""
        if box.ending:
            return
        box.ending = True
        self.end_commands(box.id)
        if box.code is not None or not box.pid:
            self.kill_strays()
            self._remove(box)
        elif box.grace > 0:
            self._ask_to_end(box)
            self._stopping[box.id] = time.monotonic() + box.grace
        else:
            procs.kill_tree(box.pid)

    @staticmethod
    def _ask_to_end(box: Box) -> None:
        """SIGTERM; with bubblewrap to what runs inside, because bubblewrap's own end is a SIGKILL for all."""
        if box.wrapped:
            for init in procs.children(box.pid):
                for pid in procs.children(init):
                    procs.kill(pid, signal.SIGTERM)
        else:
            procs.kill_group(box.pid, signal.SIGTERM)

    def end_commands(self, sandbox_id: str) -> None:
        """End the commands that run in a sandbox."""
        for other in list(self.boxes.values()):
            if other.of == sandbox_id and other.code is None:
                procs.kill_tree(other.pid)

    def kill_strays(self) -> None:
        """End orphans whose leader is gone, which makes them children of the keeper.

        Only what a command left behind in a sandbox that lives on is spared: it ends with the sandbox.
        """
        for _ in range(20):
            strays = [pid for pid in procs.children(self.pid) if pid not in self.by_pid and not self._spared(pid)]
            if not strays:
                return
            for pid in strays:
                procs.kill_tree(pid)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _spared(self, pid: int) -> bool:
        mark = procs.mark_of(pid)
        if mark is None:
            return False
        box = self.boxes.get(mark)
        return mark in self.guests or (box is not None and not box.ending)

    def _remove(self, box: Box) -> None:
        self._close_log(box)
        if box.dir is None:
            self._gone(box)
        elif count_entries(box.dir, _INLINE_REMOVAL) < _INLINE_REMOVAL:
            remove_tree(box.dir)
            self._gone(box)
        else:
            # A large folder is removed beside the loop, so that the others are not kept waiting.
            pid = os.fork()
            if pid == 0:
                try:
                    remove_tree(box.dir)
                finally:
                    os._exit(0)
            box.remover = pid
            self.by_pid[pid] = box

    def _gone(self, box: Box) -> None:
        self._close_log(box)
        self.boxes.pop(box.id, None)
        if box.of is None:
            self.send({"ev": "ended", "id": box.id})

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def _next_deadline(self) -> float | None:
        waits = [self._expiries[0][0] - time.time()] if self._expiries else []
        if self._stopping:
            waits.append(min(self._stopping.values()) - time.monotonic())
        return max(0.0, min(waits)) if waits else None

    def _deadlines(self) -> None:
        now, mono = time.time(), time.monotonic()
        for identity in [key for key, at in self._stopping.items() if at <= mono]:
            del self._stopping[identity]
            box = self.boxes.get(identity)
            if box is not None and box.code is None:
                procs.kill_tree(box.pid)
        while self._expiries and self._expiries[0][0] <= now:
            _, identity = heapq.heappop(self._expiries)
            box = self.boxes.get(identity)
            if box is not None and not box.ending:
                self._expire(box, now)

    def _expire(self, box: Box, now: float) -> None:
        # Another process may have extended it: the file has the last word.
        kept = read_json(f"{box.dir}/meta.json") or {}
        box.meta["expires_at"] = max(kept.get("expires_at", 0.0), box.meta["expires_at"])
        if box.meta["expires_at"] <= now:
            self.send({"ev": "expired", "id": box.id})
            self.end(box)
        else:
            heapq.heappush(self._expiries, (box.meta["expires_at"], box.id))

    def shutdown(self) -> None:
        """End everything that is held."""
        signal.set_wakeup_fd(-1)
        for box in self.boxes.values():
            if box.code is None and box.pid:
                procs.kill_tree(box.pid)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            for pid in procs.children(self.pid):
                if pid not in self.by_pid:
                    procs.kill_tree(pid)
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                time.sleep(0.005)
            self.by_pid.pop(pid, None)
        for box in self.boxes.values():
            if box.dir is not None and box.of is None:
                remove_tree(box.dir)
