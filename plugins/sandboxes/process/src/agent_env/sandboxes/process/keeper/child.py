"""What a forked child does before it becomes the env: limits, streams, signals, death with its parent."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

_LIMITS = {
    "core": resource.RLIMIT_CORE,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "cpu": resource.RLIMIT_CPU,
    "as": resource.RLIMIT_AS,
}


def become_subreaper() -> None:
    """Orphans below this process become its children, so that a process which left its group is still found."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when its parent's (only) thread ends; exits at once when that has happened already."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(125)


def set_limits(limits: Mapping[str, int]) -> None:
    """Lower the soft and hard limits named ``core fsize nofile cpu as``; never above what the parent has."""
    for name, value in limits.items():
        kind = _LIMITS[name]
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        resource.setrlimit(kind, (value, value))


def default_signals() -> None:
    """Undo what a Python parent set up: ignored and handled signals go back to their defaults."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # Python ignores these two; a command started by exec would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def python_signals() -> None:
    """What Python itself sets at its start, for a child that goes on as Python."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def redirect(stdin: int | None, stdout: int, stderr: int) -> None:
    """Make these the standard streams; without ``stdin`` it reads nothing."""
    null = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    if stdin is None and null > 2:
        os.close(null)
