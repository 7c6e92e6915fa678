"""bubblewrap: own user, pid, ipc, mount and network namespaces, and only the system's and the env's files to see."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agent_env.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

SOCKET_FOLDER = "/run/agentenv"
"""Where a sandbox finds the folder of its unix socket."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# Named one by one: /etc also holds keys and password hashes, which root could read.
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts", "group", "host.conf", "hosts",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd",
    "pki/ca-trust", "pki/tls/certs", "protocols", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
    "timezone",
)  # fmt: skip
_PROBE_TIMEOUT = 20.0
_PATHS_SCRIPT = (
    "import json, sys; "
    "print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]))"
)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A working bubblewrap."""

    program: str
    readable: tuple[str, ...] = ()

    def arguments(
        self, folder: Path, *, cwd: str, network: bool, readable: tuple[str, ...], kids: Path | None = None
    ) -> list[str]:
        """The command line up to the command.

        Args:
            folder: the sandbox's folder; its ``root`` becomes ``/``.
            cwd: working folder inside.
            network: share the host's network.
            readable: paths to show read-only: the interpreter's.
            kids: folder of forked children's folders, writable under its own name; the rest is read-only then, so that
                one child cannot leave anything for the next.
        """
        argv = [self.program, "--bind", str(folder / "root"), "/"]
        for path in _SYSTEM:
            argv += ["--ro-bind-try", path, path]
        for name in _ETC:
            argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        if network:
            argv += ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
        for path in _outermost((*readable, *self.readable)):
            argv += ["--ro-bind-try", path, path]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        if kids is None:
            argv += ["--bind", str(folder / "sock"), SOCKET_FOLDER]
        else:
            argv += ["--bind", str(kids), str(kids), "--remount-ro", "/"]
        argv += ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--chdir", cwd]
        if network:
            argv.append("--share-net")
        return [*argv, "--"]


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """Without what the system folders or another path of the list show already."""
    kept: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths}):  # noqa: PTH100
        if path != "/" and not any(path == above or path.startswith(above + "/") for above in (*_SYSTEM, *kept)):
            kept.append(path)
    return kept


async def find() -> tuple[Bubblewrap | None, str]:
    """Bubblewrap if it works here, else why not."""
    return await asyncio.to_thread(_find)


def _find() -> tuple[Bubblewrap | None, str]:
    program = shutil.which("bwrap")
    if program is None:
        return None, "bubblewrap (bwrap) is not installed"
    argv = [program, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--cap-drop", "ALL"]
    try:
        done = subprocess.run(
            [*argv, "--die-with-parent", "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap does not work here: {error}"
    if done.returncode != 0:
        return None, f"bubblewrap does not work here: {done.stderr.decode(errors='replace').strip()}"
    return Bubblewrap(program), ""


async def python_paths(interpreter: str) -> tuple[str, ...]:
    """What has to be readable for an interpreter: its prefixes and its module path.

    Raises:
        SandboxError: it cannot be run.
    """
    return await asyncio.to_thread(_python_paths, interpreter)


def _python_paths(interpreter: str) -> tuple[str, ...]:
    env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    try:
        done = subprocess.run(
            [interpreter, "-P", "-c", _PATHS_SCRIPT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT,
            check=True,
            cwd="/",
            env=env,
        )
        found = cast("list[str]", json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SandboxError(f"cannot run the Python interpreter {interpreter}: {error}", provider="process") from error
    hidden = {"/", "/root", "/home", os.path.expanduser("~")}  # noqa: PTH111
    return tuple(path for path in found if path and path not in hidden and os.path.exists(path))  # noqa: PTH110
