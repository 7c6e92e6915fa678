"""The folders on disk: state root / one group per server run / one folder per sandbox."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

from agent_env.errors import SandboxError, SandboxUnsupported
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.process.keeper.files import write_json

SOCKET_PATH_LIMIT = 107
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
    root = Path(os.path.abspath(root))  # noqa: PTH100 - no symlink is resolved: the path has to stay short
    if len(os.fsencode(root)) + len("/12345678/12345678/kids/12345678/sock/s") > SOCKET_PATH_LIMIT:
        raise SandboxUnsupported(
            f"the state folder's path is too long for unix sockets: {root}; "
            "name a shorter one with AGENTENV_STATE_DIR or the option state_dir",
            provider="process",
        )
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = root.lstat()
    except OSError as error:
        raise SandboxError(f"cannot use the state folder {root}: {error}", provider="process") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise SandboxError(
            f"the state folder {root} must be a folder of this user with mode 0700; "
            "mend it or name another with AGENTENV_STATE_DIR or the option state_dir",
            provider="process",
        )
    return root


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
