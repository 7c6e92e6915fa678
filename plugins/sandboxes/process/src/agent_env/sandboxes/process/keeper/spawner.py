"""The keeper that starts commands: env servers, zygotes and code hosts, and what `Sandbox.exec` runs."""

from __future__ import annotations

import os
import socket
from typing import Any, NoReturn

from agent_env.sandboxes.process.keeper import cells, child
from agent_env.sandboxes.process.keeper.base import Box, Keeper
from agent_env.sandboxes.process.keeper.files import copy_tree, make_folders, remove_tree
from agent_env.sandboxes.process.keeper.relay import Relay, enter_network

CONTROL_FD = 3
"""Where a started keeper finds its control socket."""


class Spawner(Keeper):
    """Requests: ``spawn`` a sandbox, ``exec`` a command in one, ``end`` and ``kill``, ``relay``, ``sweep``."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        super().__init__(control)
        self.folder = folder

    def handle(self, op: str, message: dict[str, Any], fds: list[int]) -> None:
        if op == "spawn":
            self._spawn(message, fds)
        elif op == "exec":
            self._exec(message, fds)
        elif op == "sweep":
            self.guests.discard(message["id"])
            self.end_commands(message["id"])
            self.kill_strays()
        elif op == "relay":
            self._relay(message)
        else:
            super().handle(op, message, fds)

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        box = Box(
            message["id"],
            message["dir"],
            meta=message["meta"],
            grace=message["grace"],
            wrapped=message.get("wrapped", False),
        )
        try:
            make_folders(str(box.dir), message["folders"])
            if message.get("kids"):
                os.mkdir(f"{box.dir}/kids", 0o700)  # noqa: PTH102
            if message["argv"]:
                self.hold(box, lambda: _run(message, fds[0] if fds else None), log_limit=message["log"])
            else:
                self.keep(box)
        except OSError:
            remove_tree(str(box.dir))
            raise

    def _exec(self, message: dict[str, Any], fds: list[int]) -> None:
        box = Box(message["id"], None, of=message["of"])
        if len(fds) != 3:
            raise ValueError("exec needs three descriptors")
        if message["of"] not in self.boxes:
            self.guests.add(message["of"])
        self.hold(box, lambda: _run(message, None), stdin=fds[0], stdout=fds[1], stderr=fds[2])

    def _relay(self, message: dict[str, Any]) -> None:
        """Lead from a unix socket to a port inside a sandbox's network; a child of its own, as it has to move there."""
        box = Box(message["id"], None, of=message["of"])
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with listener:
            listener.bind(message["path"])
            listener.listen(128)

            def body() -> NoReturn:
                for fd in self.own_fds():
                    os.close(fd)
                child.python_signals()  # a client that hangs up is no reason to end
                enter_network(message["pid"])
                Relay(listener, message["port"]).run()

            self.hold(box, body, stdout=2, stderr=2)

    def shutdown(self) -> None:
        super().shutdown()
        if cells.end_run(self.folder):  # else a reaper has to find it
            remove_tree(self.folder)


def _run(message: dict[str, Any], control: int | None) -> NoReturn:
    """Become the command."""
    os.umask(0o077)
    copy = message.get("copy")
    if copy is not None:
        copy_tree(copy[0], copy[1])
    cells.enter(message.get("cells", ()))
    child.set_limits(message["limits"])
    os.chdir(message["cwd"])
    if control is not None:
        if control == CONTROL_FD:
            os.set_inheritable(control, True)
        else:
            os.dup2(control, CONTROL_FD)
    argv, env = message["argv"], message["env"]
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except FileNotFoundError as error:
        if message.get("of") is not None:
            os.write(2, f"{argv[0]}: command not found\n".encode())
            os._exit(127)
        raise FileNotFoundError(f"command {argv[0]!r} not found on the PATH {env.get('PATH', '')!r}") from error
