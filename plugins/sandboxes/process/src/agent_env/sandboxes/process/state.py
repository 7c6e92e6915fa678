"""The folders on disk: state root / one group per server run / one folder per sandbox."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from agent_env.plugin.sandboxing import lease
from agent_env.plugin.sandboxing.private import private_folder
from agent_env.sandboxes.process.keeper.files import write_json

MEMORY_FOLDER_BYTES = 1024**3


def state_root(option: Path | None) -> Path:
    """The state root, made private when it does not exist yet.

    Raises:
        SandboxUnsupported: its path is too long for unix sockets; SandboxError: it is another user's or open to them.
    """
    if option is not None:
        root = option
    elif os.environ.get("AGENTENV_STATE_DIR"):
        root = Path(os.environ["AGENTENV_STATE_DIR"])
    else:
        root = (_memory_folder() or Path(tempfile.gettempdir())) / f"agentenv-{os.getuid()}"
    longest = len("/12345678/12345678/kids/12345678/sock/s")
    return private_folder(root, provider="process", option="state_dir", inside=longest)


def _memory_folder() -> Path | None:
    """A folder in memory, where it is large enough: a disk delays the files of an episode with its journal."""
    folder = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
    try:
        facts = os.statvfs(folder)
    except OSError:
        return None
    large = facts.f_blocks * facts.f_frsize >= MEMORY_FOLDER_BYTES
    # Tasks may run scripts of their own from there.
    runs = not facts.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return folder if large and runs and os.access(folder, os.W_OK | os.X_OK) else None


def new_group(root: Path) -> Path:
    """A fresh folder for the sandboxes of this run, with its owner's identity inside."""
    while True:
        group = root / secrets.token_hex(4)
        # The owner is known before the folder can be seen under its final name: a reaper never finds it ownerless.
        fresh = root / f".{group.name}"
        try:
            fresh.mkdir(mode=0o700)
        except FileExistsError:
            continue
        write_json(str(fresh / "owner.json"), lease.owner())
        try:
            fresh.rename(group)
        except OSError:
            continue
        return group


def folder_of(root: Path, sandbox_id: str) -> Path | None:
    """The folder of a sandbox, None when there is none.

    An id is ``<group>-<name>``; that of a forked one has a third part.
    """
    parts = sandbox_id.split("-")
    if len(parts) not in {2, 3} or not all(part.isalnum() and part.isascii() for part in parts):
        return None
    folder = root / parts[0] / parts[1]
    if len(parts) == 3:
        folder = folder / "kids" / parts[2]
    return folder if (folder / "meta.json").is_file() else None
