"""What other server runs left on disk: listing it, and ending what nobody owns any more."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.process import cells, identity
from agent_env.sandboxes.process.keeper import cells as cgroups
from agent_env.sandboxes.process.keeper import procs
from agent_env.sandboxes.process.keeper.files import read_json, remove_tree

_FRESH_S = 60.0
_CELL_S = 5.0


# Several reapers may be at work, and a run may remove its own folder meanwhile: what is gone is no error anywhere here.


def _folders(path: Path) -> list[Path]:
    """The folders in a folder, sorted; links do not count."""
    try:
        with os.scandir(path) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def groups(root: Path) -> list[Path]:
    """The folders of all server runs."""
    return _folders(root)


def _metas(group: Path) -> list[Path]:
    """Records of a run's sandboxes, forked ones before the warm interpreters that hold them."""
    boxes = _folders(group)
    kids = [kid for box in boxes for kid in _folders(box / "kids")]
    return [path for folder in (*kids, *boxes) if (path := folder / "meta.json").is_file()]


def _is_old(group: Path, now: float) -> bool:
    try:
        return now - group.stat().st_mtime > _FRESH_S
    except OSError:
        return False


def records(root: Path) -> list[dict[str, Any]]:
    """The ``meta.json`` of every sandbox."""
    found: list[dict[str, Any]] = []
    for group in groups(root):
        for path in _metas(group):
            meta = read_json(str(path))
            if meta is not None and "expires_at" in meta:
                found.append(meta)
    return found


def _kill_recorded(meta: dict[str, Any]) -> None:
    """End the process of a record, if that number still means it, and what carries the sandbox's mark."""
    pid = identity.host_pid(meta)
    if pid is not None:
        procs.kill_tree(pid)
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit() and procs.mark_of(int(entry)) == meta["id"]:
            procs.kill(int(entry))


def end_record(folder: Path) -> None:
    """End a sandbox by its record and remove its folder."""
    meta = read_json(str(folder / "meta.json"))
    if meta is not None:
        owner = meta.get("owner", {})
        if lease.alive(owner) is not None:
            pid = identity.host_pid(meta)
            _kill_recorded(meta)
            if pid is not None:
                _wait_gone(pid, meta.get("start"))
            cgroups.remove(cells.folders_of(folder), _CELL_S)
    remove_tree(str(folder))


def _wait_gone(pid: int, start: int | None) -> None:
    """Wait until a killed process is gone; its own parent waits for it."""
    deadline = time.monotonic() + 5
    while procs.start_time(pid) == start and not _is_zombie(pid) and time.monotonic() < deadline:
        time.sleep(0.005)


def _is_zombie(pid: int) -> bool:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return data[data.rindex(b")") + 2 : data.rindex(b")") + 3] == b"Z"


def end_group(group: Path) -> None:
    """End all that is left of one server run."""
    for path in _metas(group):
        end_record(path.parent)
    _remove_group(group)


def _remove_group(group: Path) -> None:
    """Remove a run's folder; one whose cgroups cannot be removed yet is left to the next reaper."""
    if cgroups.end_run(str(group), _CELL_S):
        remove_tree(str(group))


def reap(root: Path, older_than_s: float | None = None) -> list[str]:
    """End what nobody owns any more: of dead owners at once, of other hosts' owners after its expiry.

    Args:
        root: the state root.
        older_than_s: of owners that cannot be seen from here, also what was made longer ago than this.
    """
    ended: list[str] = []
    now = time.time()
    for group in groups(root):
        owner = read_json(str(group / "owner.json"))
        if owner is None:
            if _is_old(group, now):
                remove_tree(str(group))
            continue
        alive = lease.alive(owner)
        if alive:
            continue
        left = False
        for path in _metas(group):
            meta = read_json(str(path)) or {}
            expired = meta.get("expires_at", now + 1) <= now
            old = older_than_s is not None and meta.get("created_at", now) <= now - older_than_s
            if alive is False or expired or old:
                end_record(path.parent)
                if "expires_at" in meta:
                    ended.append(str(meta["id"]))
            elif "expires_at" in meta:
                left = True
        if not left and (alive is False or _is_old(group, now)):
            _remove_group(group)
    return ended
