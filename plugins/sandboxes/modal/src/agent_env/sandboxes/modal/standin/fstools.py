"""What the SDK's file interface runs inside a sandbox: one command in JSON. The standard library only."""

# ruff: noqa: PTH103, PTH119, PTH120, PTH123

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from typing import Any

_KINDS = (
    (FileNotFoundError, "NotFound"),
    (IsADirectoryError, "IsDirectory"),
    (NotADirectoryError, "NotDirectory"),
    (FileExistsError, "AlreadyExists"),
    (PermissionError, "PermissionDenied"),
)


def _stat(path: str) -> None:
    facts = os.lstat(path)
    kind = "directory" if stat.S_ISDIR(facts.st_mode) else "symlink" if stat.S_ISLNK(facts.st_mode) else "file"
    answer = {
        "name": os.path.basename(path),
        "path": path,
        "type": kind,
        "size": facts.st_size,
        "mode": facts.st_mode & 0o7777,
        "permissions": stat.filemode(facts.st_mode),
        "owner": str(facts.st_uid),
        "group": str(facts.st_gid),
        "modified_time": facts.st_mtime,
    }
    print(json.dumps(answer))  # noqa: T201


def _play(command: dict[str, Any]) -> None:
    ((name, fields),) = command.items()
    path = str(fields["path"])
    if name == "WriteFile":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    elif name == "ReadFile":
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    elif name == "Stat":
        _stat(path)
    elif name == "MakeDirectory":
        os.makedirs(path, exist_ok=True)
    else:
        raise ValueError(f"the stand-in does not play {name}")


def main() -> int:
    """Play the command; an error is told in JSON on stderr."""
    try:
        _play(json.loads(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - all of them are told
        kind = next((name for known, name in _KINDS if isinstance(error, known)), "Other")
        print(json.dumps({"error_kind": kind, "message": str(error)}), file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
