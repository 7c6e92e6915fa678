"""Where this process may make cgroups: which controllers, in which hierarchies, and why not elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CONTROLLERS: Final = {"cpu": "cpu", "memory_mb": "memory", "pids": "pids"}
"""Limits and the controllers that keep them."""

LEAF: Final = "agentenv-server"
"""Version 2: where the processes of a delegated cgroup move to, because one with controllers for its children may hold
none itself."""

PROC = Path("/proc/self")
SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A cgroup file system.

    Attributes:
        version: 1 or 2.
        home: the folder below which cgroups may be made.
        controllers: those of `CONTROLLERS` that it has.
    """

    version: int
    home: str
    controllers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cgroups:
    """What can be limited here.

    Attributes:
        hierarchies: where.
        why_not: for every limit that cannot be kept, why.
    """

    hierarchies: tuple[Hierarchy, ...] = ()
    why_not: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def limits(self) -> frozenset[str]:
        """Names of the limits that can be kept."""
        return frozenset(CONTROLLERS) - self.why_not.keys()


class _Unfit(Exception):
    """No cgroup can be made there; the message says why."""


@dataclass(frozen=True, slots=True)
class _Mount:
    point: str
    root: str
    version: int
    controllers: frozenset[str]


def look() -> Cgroups:
    """Look at the cgroups of this process; nothing is changed."""
    mounts = _mounts()
    own: dict[str, str] = {}
    unified: str | None = None
    for line in _read(PROC / "cgroup").splitlines():
        number, names, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not names:
            unified = path
        own.update(dict.fromkeys(names.split(","), path))
    found: dict[tuple[int, str], list[str]] = {}
    why_not: dict[str, str] = {}
    for limit, controller in CONTROLLERS.items():
        try:
            if controller in own:
                place = 1, _home(mounts, controller, own[controller])
            else:
                place = 2, _unified_home(mounts, controller, unified)
        except _Unfit as why:
            why_not[limit] = str(why)
        else:
            found.setdefault(place, []).append(controller)
    hierarchies: list[Hierarchy] = []
    for (version, home), controllers in found.items():
        reason = _probe(home)
        if reason is None:
            hierarchies.append(Hierarchy(version, home, tuple(controllers)))
        else:
            why_not.update({limit: reason for limit, controller in CONTROLLERS.items() if controller in controllers})
    return Cgroups(tuple(hierarchies), why_not)


def _read(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _mounts() -> list[_Mount]:
    found: list[_Mount] = []
    for line in _read(PROC / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        if len(words) < 5 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        found.append(_Mount(_plain(words[4]), _plain(words[3]), version, frozenset(kind[2].split(","))))
    return found


def _plain(text: str) -> str:
    """A path of mountinfo, which writes some characters as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _folder(mount: _Mount, path: str) -> str | None:
    """Where a mount shows a cgroup."""
    root = mount.root.rstrip("/")
    if (path != mount.root and not path.startswith(root + "/")) or ".." in path.split("/"):
        return None
    return (mount.point + path[len(root) :]).rstrip("/")


def _own(mounts: list[_Mount], path: str, what: str) -> str:
    places = [place for mount in mounts if (place := _folder(mount, path)) is not None and os.path.isdir(place)]  # noqa: PTH112
    if not places:
        raise _Unfit(f"{what} is not mounted here")
    for place in places:
        if os.access(place, os.W_OK | os.X_OK) and os.access(f"{place}/cgroup.procs", os.W_OK):
            return place
    raise _Unfit(f"the cgroup {places[0]} cannot be written by this process")


def _home(mounts: list[_Mount], controller: str, path: str) -> str:
    fitting = [mount for mount in mounts if mount.version == 1 and controller in mount.controllers]
    return _own(fitting, path, f"the cgroup controller {controller!r}")


def _unified_home(mounts: list[_Mount], controller: str, path: str | None) -> str:
    if path is None:
        raise _Unfit(f"this kernel has no cgroup controller {controller!r}")
    above, _, name = path.rpartition("/")
    home = _own([mount for mount in mounts if mount.version == 2], above or "/" if name == LEAF else path, "cgroup2")
    if controller not in _read(f"{home}/cgroup.controllers").split():
        raise _Unfit(f"the cgroup {home} does not have the controller {controller!r}")
    if not os.access(f"{home}/cgroup.subtree_control", os.W_OK) or not _delegated(home):
        raise _Unfit(f"the cgroup {home} is not delegated to this process")
    return home


def is_root(home: str) -> bool:
    """Whether it is the real root of version 2, which may hold processes beside its children."""
    return not os.path.exists(f"{home}/cgroup.type")  # noqa: PTH110


def _delegated(home: str) -> bool:
    """Whether nobody else, which is systemd where it runs, manages what is below a cgroup."""
    if not SYSTEMD.is_dir():
        return True
    for name in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(home, name) == b"1":
                return True
    # Older versions of systemd leave no mark that a user can read; that the owner changes here is one too.
    uid = os.geteuid()
    return uid != 0 and os.stat(home).st_uid == uid != os.stat(os.path.dirname(home)).st_uid  # noqa: PTH116, PTH120


def _probe(home: str) -> str | None:
    """Why no cgroup can be made in a folder, `None` when one could."""
    path = f"{home}/agentenv-probe-{secrets.token_hex(4)}"
    try:
        os.mkdir(path)  # noqa: PTH102
        os.rmdir(path)  # noqa: PTH106
    except OSError as error:
        return f"no cgroup can be made in {home}: {error.strerror}"
    return None


def mend() -> str:
    """What would let this process make cgroups."""
    user = "" if os.geteuid() == 0 else "--user "
    return f"start the server with `systemd-run {user}--scope -p Delegate=yes ...`, or take the docker provider"
