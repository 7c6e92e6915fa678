"""Listening sockets."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from agent_env.errors import UsageError

_LONGEST_UDS = 107


def listen_uds(path: str | Path) -> socket.socket:
    """A unix socket that only this user can connect to; a stale file of a dead server is replaced.

    Raises:
        UsageError: the path is too long, is no socket, or a live server listens there.
    """
    path = Path(path)
    if len(os.fsencode(path)) > _LONGEST_UDS:
        raise UsageError(f"the path of a unix socket is at most {_LONGEST_UDS} bytes, {path} is longer")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        sock.listen(512)
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen on {path}: {error}") from error
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def listen_tcp(host: str, port: int) -> socket.socket:
    """A TCP socket; port 0 = any free one.

    Raises:
        UsageError: the address cannot be used.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(512)
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
    sock.setblocking(False)
    return sock


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{path} exists and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise UsageError(f"a server listens on {path} already")
