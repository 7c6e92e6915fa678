"""Passing folders, such as a build context that is staged for an upload: gone with their use, whatever happens.

::

    async with Scratch("cloudlet-build") as scratch:
        dockerfile = await scratch.run(context.stage, scratch.path)  # in a thread
        ...

What a killed process left is removed by the next one that makes a folder of the same kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")


class ScratchFolder:
    """A folder of this process in the temp directory; for threads, and for what is no coroutine.

    Attributes:
        path: the folder.
    """

    def __init__(self, kind: str) -> None:
        """Make it.

        Args:
            kind: begins its name; letters, digits and dashes.
        """
        _sweep(kind)
        # It gets its name when it is locked, so that nobody takes it for left behind.
        new = tempfile.mkdtemp(prefix=".agentenv-")
        self._lock = os.open(new, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = Path(new).with_name(f"{kind}-{Path(new).name.removeprefix('.agentenv-')}")
        os.rename(new, self.path)  # noqa: PTH104

    def remove(self) -> None:
        """Remove it with all that is in it; idempotent."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.remove()


class Scratch:
    """The same for coroutines: the folder outlasts what still writes into it, also when its user is cancelled.

    Attributes:
        path: the folder, inside the ``async with``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._folder: ScratchFolder | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        if self._folder is None:
            raise RuntimeError("a scratch folder is there inside its `async with` only")
        return self._folder.path

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``work`` in a thread; a caller that is cancelled waits for its end, because a thread goes on."""
        return await to_the_end(asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs)))

    async def __aenter__(self) -> Self:
        making = asyncio.ensure_future(asyncio.to_thread(ScratchFolder, self._kind))
        try:
            self._folder = await to_the_end(making)
        except asyncio.CancelledError:
            if not making.cancelled() and making.exception() is None:
                making.result().remove()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            await to_the_end(asyncio.ensure_future(asyncio.to_thread(folder.remove)))


async def to_the_end(work: asyncio.Future[T]) -> T:
    """Its result. A caller that is cancelled waits for the end all the same, and is cancelled then."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()  # looked at
        raise cancelled
    return work.result()


def _sweep(kind: str) -> None:
    """Remove what killed processes of this user left."""
    for path in Path(tempfile.gettempdir()).glob(f"{kind}-????????"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
