"""The provider's folder on this machine: shared sockets of containers, and locks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.plugin.sandboxing.private import private_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

_LOCK_POLL = 0.2
_FRESH_S = 600.0
_ID_HEX = 16


def state_root(option: Path | None) -> Path:
    """The folder, made private when it does not exist yet.

    Raises:
        SandboxUnsupported: its path is too long for unix sockets; SandboxError: it is another user's or open to them.
    """
    if option is not None:
        root = option
    elif os.environ.get("AGENTENV_STATE_DIR"):
        # Beside the process sandbox's folder, not in it: each reaper knows its own only.
        root = Path(os.environ["AGENTENV_STATE_DIR"].rstrip("/") + "-docker")
    else:
        root = Path(tempfile.gettempdir()) / f"agentenv-docker-{os.getuid()}"
    return private_folder(root, provider="docker", option="docker.state_dir", inside=len("/s") + _ID_HEX + len("/s"))


def new_folder(root: Path, create_id: str) -> Path:
    """The folder that a container's server puts its socket into; whatever user it runs as can write there."""
    folder = root / create_id
    folder.mkdir()
    folder.chmod(0o777)  # nobody else gets through its parent
    return folder


def remove_folder(root: Path, create_id: str) -> None:
    """Remove it, if it is there."""
    shutil.rmtree(root / create_id, ignore_errors=True)


def sweep(root: Path, kept: Collection[str]) -> None:
    """Remove folders whose containers are gone, but those that may belong to a create under way."""
    for path in root.iterdir():
        if len(path.name) == _ID_HEX and path.name not in kept and path.is_dir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _FRESH_S:
                    shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None, None]:
    """A lock that all processes of this machine share; it ends with its holder."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(fd)
