"""What the keepers that fork a warm interpreter share: a child goes on in Python, in its own folder."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, cast

from agent_env.sandboxes.process.keeper import cells, child
from agent_env.sandboxes.process.keeper.base import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_OURS = "agent_env"


def forget_source(source: str) -> None:
    """Take the folder that the keeper itself was imported from out of the module path, and what came from it out of
    ``sys.modules``: the env's own Python decides what ``import agent_env`` means.
    """  # noqa: D205, D209
    if source in sys.path:
        sys.path.remove(source)
    for name in [name for name in sys.modules if name == _OURS or name.startswith(_OURS + ".")]:
        del sys.modules[name]


def threads() -> int:
    """Threads of this process, whoever made them."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


class ForkingKeeper(Keeper):
    """Forks children of this interpreter."""

    def freeze(self) -> None:
        """Move all objects there are out of the collector's sight, so that children share their pages longer."""
        gc.collect()
        gc.freeze()

    def enter(
        self, message: Mapping[str, Any], folder: str, keep: tuple[int, ...] = (), cgroups: Sequence[int] = ()
    ) -> None:
        """In a child: own cgroups, descriptors, limits, working folder, environment and random numbers."""
        cells.enter(cgroups)
        for fd in self.own_fds():
            if fd not in keep:
                os.close(fd)
        os.umask(0o077)
        child.python_signals()
        child.set_limits(message["limits"])
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(message["env"])
        reseed()
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None:
            tempfile.tempdir = None  # type: ignore[attr-defined]


def reseed() -> None:
    """Give the random generators that are loaded a fresh state each: children of one parent share theirs."""
    random.seed()
    numpy = cast("Any", sys.modules.get("numpy.random"))
    if numpy is not None:
        numpy.seed(int.from_bytes(os.urandom(4), "little"))
    torch = cast("Any", sys.modules.get("torch"))
    if torch is not None:
        torch.seed()


def run_to_exit(work: Callable[[], None]) -> NoReturn:
    """Run and end the process as Python would, without the exit handlers of the parent."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            code = stop.code or 0
        else:
            print(stop.code, file=sys.stderr)  # noqa: T201
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
