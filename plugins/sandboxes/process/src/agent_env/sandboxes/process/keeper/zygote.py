"""A warm interpreter with an env's module imported; one forked child per episode serves it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import selectors
import socket
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, cast

from agent_env.sandboxes.process.keeper.base import Box
from agent_env.sandboxes.process.keeper.files import copy_tree, make_folders, remove_tree
from agent_env.sandboxes.process.keeper.forking import ForkingKeeper, forget_source, run_to_exit, threads

if TYPE_CHECKING:
    from types import ModuleType

_ID_SIZE = 64


class Zygote(ForkingKeeper):
    """Requests: ``fork`` a child that serves (descriptors: its cgroups), ``end``."""

    def __init__(self, control: socket.socket, app: str, module: str) -> None:
        super().__init__(control)
        self._app = app
        self._module = module
        self._class: Any = None
        self._serve: Any = None
        self._ready_read, self._ready_write = os.pipe()
        os.set_blocking(self._ready_read, False)

    def load(self, source: str) -> None:
        """Import the author's module and what serving it needs; `error` says why it cannot be forked."""
        forget_source(source)
        os.chdir(self._app)
        sys.path.insert(0, self._app)
        try:
            module = self._import()
            server = cast("Any", importlib.import_module("agent_env.env.server"))
            self._class, self._serve = server.find_env(module), server.serve_instance
        except BaseException as error:  # noqa: BLE001
            traceback.print_exc()
            self.error = f"{type(error).__name__}: {error}"
            return
        if threads() != 1:
            names = ", ".join(thread.name for thread in threading.enumerate() if thread.name != "MainThread")
            self.error = f"its imports start threads ({names or 'of a library'}), which a forked child would lack"
            return
        self.freeze()
        self.selector.register(self._ready_read, selectors.EVENT_READ, self._on_ready)

    def _import(self) -> ModuleType:
        if not self._module.endswith(".py"):
            sys.argv = [self._module]
            return importlib.import_module(self._module)
        path = os.path.join(self._app, self._module)  # noqa: PTH118
        name = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122
        sys.argv = [path]
        sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self._module} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def handle(self, op: str, message: dict[str, Any], fds: list[int]) -> None:
        if op == "fork":
            self._fork(message, fds)
        else:
            super().handle(op, message, fds)

    def _fork(self, message: dict[str, Any], cgroups: list[int]) -> None:
        box = Box(message["id"], message["dir"], meta=message["meta"], grace=message["grace"])
        try:
            make_folders(str(box.dir), message["folders"])
            # It listens before the child is ready, so that an early client waits instead of failing.
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(f"{box.dir}/sock/s")
                listener.listen(512)
                listener.setblocking(False)
                self.hold(box, lambda: self._child(message, listener, cgroups), log_limit=message["log"])
        except OSError:
            remove_tree(str(box.dir))
            raise

    def _child(self, message: dict[str, Any], listener: socket.socket, cgroups: list[int]) -> NoReturn:
        copy_tree(self._app, message["cwd"])
        self.enter(message, message["cwd"], keep=(self._ready_write,), cgroups=cgroups)

        def ready() -> None:
            os.write(self._ready_write, message["id"].encode().ljust(_ID_SIZE))
            os.close(self._ready_write)

        run_to_exit(lambda: self._serve(self._class(), sock=listener, ready=ready))

    def _on_ready(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._ready_read, _ID_SIZE):
                box = self.boxes.get(data.decode(errors="replace").strip())
                if box is not None and not box.ending:
                    box.meta["ready"] = True
                    self.record(box)
                    self.send({"ev": "ready", "id": box.id})

    def own_fds(self) -> list[int]:
        return [*super().own_fds(), self._ready_read, self._ready_write]
