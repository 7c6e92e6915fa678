"""Starting keeper processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from agent_env.errors import SandboxUnavailable
from agent_env.sandboxes.process.link import Link

SOURCE = Path(__file__).resolve().parents[3]
"""The folder that ``import agent_env.sandboxes.process`` is found in."""

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from agent_env.sandboxes.process.keeper.main import main; main(*sys.argv[2:])"
)
_HELLO_TIMEOUT = 30.0
_QUIT_TIMEOUT = 8.0


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a keeper's control socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class SpawnerProcess:
    """The spawner of one server: a child process that holds all its sandboxes."""

    def __init__(self, process: subprocess.Popen[bytes], link: Link) -> None:
        self._process = process
        self.link = link

    @classmethod
    async def start(cls, group: Path) -> SpawnerProcess:
        """Start it; it ends itself when this process does, however that happens.

        Raises:
            SandboxUnavailable: it does not come up.
        """
        ours, theirs = socket_pair()
        # Its own session: a terminal's Ctrl-C reaches the server, which decides what ends.
        with theirs, (group / "keeper.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - a millisecond, and cancellation cannot come between
                [sys.executable, "-I", "-S", "-c", BOOT, str(SOURCE), "spawner", str(theirs.fileno()), str(group)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
        self = cls(process, Link(ours))
        try:
            await asyncio.wait([self.link.hello], timeout=_HELLO_TIMEOUT)
        except BaseException:
            self.kill()
            raise
        if not self.link.hello.done() or self.link.hello.result() is None:
            self.kill()
            with contextlib.suppress(OSError):
                tail = (group / "keeper.log").read_text(errors="replace")[-2000:]
                raise SandboxUnavailable(f"the process that holds sandboxes did not start: {tail}", provider="process")
            raise SandboxUnavailable("the process that holds sandboxes did not start", provider="process")
        return self

    def kill(self) -> None:
        """End it the hard way; what it holds dies with it."""
        self.link.close()
        self._process.kill()
        self._process.wait()

    async def quit(self) -> None:
        """Hang up and wait until it has ended everything."""
        self.link.close()
        deadline = asyncio.get_running_loop().time() + _QUIT_TIMEOUT
        gone = await _wait_pid(self._process.pid, deadline)
        if not gone:
            self._process.kill()
        self._process.wait()


async def _wait_pid(pid: int, deadline: float) -> bool:
    """Wait for the end of a child of ours without a thread; False when it is still there at the deadline."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return True
    done: asyncio.Future[None] = loop.create_future()

    def notice() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_reader(fd, notice)
    try:
        await asyncio.wait([done], timeout=max(0.0, deadline - loop.time()))
        return done.done()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
