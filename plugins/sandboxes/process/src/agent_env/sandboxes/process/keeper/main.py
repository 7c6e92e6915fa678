"""Start of a keeper: ``main(kind, descriptor, *arguments)`` with the number of the control socket's descriptor."""

from __future__ import annotations

import os
import socket
import sys


def main(kind: str, descriptor: str, *arguments: str) -> None:
    """Run a keeper until its server is gone."""
    os.umask(0o077)
    os.set_inheritable(int(descriptor), False)
    control = socket.socket(fileno=int(descriptor))
    source = sys.path[0]
    if kind == "spawner":
        from agent_env.sandboxes.process.keeper.spawner import Spawner

        Spawner(control, arguments[0]).run()
    elif kind == "zygote":
        from agent_env.sandboxes.process.keeper.zygote import Zygote

        zygote = Zygote(control, *arguments)
        zygote.load(source)
        zygote.run()
    elif kind == "code":
        from agent_env.sandboxes.process.keeper.codehost import CodeHost

        host = CodeHost(control)
        host.load(source)
        host.run()
    else:
        sys.exit(f"unknown keeper {kind!r}")
