"""A warm interpreter with only the standard library loaded; one forked child per verifier or script."""

from __future__ import annotations

# What verifiers import most; loaded here once instead of in every child.
import asyncio
import http.client
import importlib.util
import inspect
import json
import math
import os
import re
import statistics
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NoReturn

from agent_env.sandboxes.process.keeper.base import Box
from agent_env.sandboxes.process.keeper.files import make_folders, remove_tree
from agent_env.sandboxes.process.keeper.forking import ForkingKeeper, forget_source, run_to_exit

if TYPE_CHECKING:
    import socket

WARM = (asyncio, http.client, importlib.util, inspect, math, re, statistics, urllib.error, urllib.request)


class CodeHost(ForkingKeeper):
    """Requests: ``runner`` (descriptor: its source), ``code`` (descriptors: files, stdin, stdout, cgroups), ``end``."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._runners: dict[str, dict[str, Any]] = {}

    def load(self, source: str) -> None:
        """Get ready to fork."""
        forget_source(source)
        self.freeze()

    def handle(self, op: str, message: dict[str, Any], fds: list[int]) -> None:
        if op == "runner":
            self._load_runner(message["digest"], _content(fds[0]))
        elif op == "code":
            self._code(message, fds)
        else:
            super().handle(op, message, fds)

    def _load_runner(self, digest: str, source: bytes) -> None:
        # As a module that is not `__main__`: children call its main().
        name = f"agentenv_runner_{digest}"
        module = sys.modules[name] = type(sys)(name)
        exec(compile(source, "runner.py", "exec"), module.__dict__)  # noqa: S102
        self._runners[digest] = module.__dict__

    def _code(self, message: dict[str, Any], fds: list[int]) -> None:
        box = Box(message["id"], message["dir"])
        files, stdin, stdout, *cgroups = fds
        main = self._runners[message["digest"]]["main"]

        def body() -> NoReturn:
            folder = f"{box.dir}/root/code"
            for name, text in json.loads(_content(files)).items():
                path = os.path.join(folder, name)  # noqa: PTH118
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
                with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(text)
            self.enter(message, f"{box.dir}/root/work", cgroups=cgroups)
            run_to_exit(main)

        try:
            make_folders(str(box.dir), ["work", "code"])
            self.hold(box, body, log_limit=message["log"], stdin=stdin, stdout=stdout)
        except OSError:
            remove_tree(str(box.dir))
            raise


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
