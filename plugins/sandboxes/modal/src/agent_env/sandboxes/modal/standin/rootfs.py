"""Root file systems of sandboxes, and running commands in them with bubblewrap.

A root is a folder; the machine's own programs and its Python are seen in it, read-only.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

TOOLS: Final = "/opt/standin"
PATH: Final = f"{TOOLS}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_HERE = Path(__file__).parent
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64")
_PREFIX = os.path.realpath(sys.base_prefix)


def make(root: Path) -> None:
    """An empty root."""
    tools = root / TOOLS.lstrip("/")
    (tools / "bin").mkdir(parents=True)
    python = os.path.realpath(sys.executable)
    for name in ("python", "python3"):
        (tools / "bin" / name).symlink_to(python)
    shutil.copy(_HERE / "inside.py", tools / "inside.py")
    fs_tools = root / "__modal/.bin/modal-sandbox-fs-tools"
    fs_tools.parent.mkdir(parents=True)
    fs_tools.write_text(f"#!{TOOLS}/bin/python -ISB\n{(_HERE / 'fstools.py').read_text()}")
    fs_tools.chmod(0o755)
    for name in _SYSTEM:
        source = Path("/") / name
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
    for name in ("tmp", "root", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")


def command(root: Path, argv: list[str], *, cwd: str, network: bool) -> list[str]:
    """Argv that runs ``argv`` in the root."""
    words = ["bwrap", "--bind", str(root), "/", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in _SYSTEM:
        source = Path("/") / name
        if source.is_dir() and not source.is_symlink():
            words += ["--ro-bind", str(source), str(source)]
    if not _PREFIX.startswith("/usr"):
        words += ["--ro-bind", _PREFIX, _PREFIX]
    if not network:
        words.append("--unshare-net")
    return [*words, "--unshare-uts", "--unshare-ipc", "--chdir", cwd, "--", *argv]
