"""A folder of this user's own, for the state of a provider that runs sandboxes on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agent_env.errors import SandboxError, SandboxUnsupported

SOCKET_PATH_LIMIT = 107
"""Bytes that the path of a unix socket may have."""


def private_folder(path: Path, *, provider: str, option: str, inside: int = 0) -> Path:
    """The folder, made with mode 0700 when it does not exist yet; an absolute path in which no symlink is resolved.

    Args:
        path: where it is to be.
        provider: name of the provider, for errors.
        option: what a user sets to have another folder, beside ``AGENTENV_STATE_DIR``.
        inside: bytes of the longest path of a unix socket below it, from its ``/`` on; 0 = there are none.

    Raises:
        SandboxUnsupported: its path is too long for unix sockets. SandboxError: it is another user's or open to them.
    """
    root = Path(os.path.abspath(path))  # noqa: PTH100 - resolved it could become longer
    mend = f"with AGENTENV_STATE_DIR or the option {option}"
    if inside and len(os.fsencode(root)) + inside > SOCKET_PATH_LIMIT:
        raise SandboxUnsupported(
            f"the state folder's path is too long for unix sockets: {root}; name a shorter one {mend}",
            provider=provider,
        )
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = root.lstat()
    except OSError as error:
        raise SandboxError(f"cannot use the state folder {root}: {error}", provider=provider) from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise SandboxError(
            f"the state folder {root} must be a folder of this user with mode 0700; mend it or name another {mend}",
            provider=provider,
        )
    return root
