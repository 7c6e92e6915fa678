"""What every test run needs."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# A shell that starts the tests in the background leaves SIGINT ignored, and every process they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# readline, which pytest loads, writes the terminal's size into the environment of every process that is started later.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# How long an example takes says nothing on a machine that does other things too.
settings.register_profile("beside", settings.default, deadline=None)
settings.load_profile("beside")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.option.basetemp = _short(Path(config.option.basetemp))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Tests of Docker and cgroups look at what is left there: one at a time on this machine. To wait is no test's time.
    place = next((place for place in ("docker", "cgroups") if item.get_closest_marker(place) is not None), None)
    if place is None:
        return (yield)
    name = Path(tempfile.gettempdir()) / f"agentenv-test-{place}-{os.getuid()}"
    with name.with_suffix(".lock").open("a") as lock, name.with_suffix(".next").open("a") as line:
        # Who waits keeps the place next in line, so that a worker cannot have the engine again and again.
        fcntl.flock(line, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(line, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


@pytest.fixture
def new_port() -> Generator[Callable[[], int]]:
    """A port of 127.0.0.1 that is this test's own until it ends, for a server that has to be told one beforehand.

    It is bound and nobody listens: no other process is given it, a connection is refused, and a server that sets
    ``SO_REUSEADDR``, as all do here, can take it, end, and take it again.
    """
    with ExitStack() as stack:

        def hold() -> int:
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            port: int = holder.getsockname()[1]
            return port

        yield hold


def _short(folder: Path) -> Path:
    """A worker's folder for temporary files: below ``pytest-7/popen-gw0`` the paths of unix sockets are too long.

    It is ``7-0`` beside ``pytest-7``, and goes once pytest has thrown that away; ``7-all`` holds what workers share.
    """
    number = folder.parent.name.removeprefix("pytest-")
    if not number.isdigit():
        return folder
    root = folder.parent.parent
    for old in root.glob("[0-9]*-*"):
        if not (root / f"pytest-{old.name.partition('-')[0]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    return root / f"{number}-{folder.name.removeprefix('popen-gw')}"
