"""The address that a server listens on."""

from __future__ import annotations

import socket
from pathlib import Path

from agent_env.errors import UsageError
from agent_env.openenv.security import is_loopback


def listen(host: str, port: int, uds: str | Path | None) -> tuple[socket.socket, str]:
    """The socket to listen on, and its URL; a unix socket that a killed server left is taken over.

    Raises:
        UsageError: the address cannot be used.
    """
    if uds is not None:
        path = Path(uds)
        listener = socket.socket(socket.AF_UNIX)
        try:
            if path.is_socket():
                _check_stale(path)
                path.unlink()
            listener.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            listener.close()
            raise UsageError(f"cannot listen on {path}: {error.strerror or error}") from None
        return listener, f"unix:{path}"
    try:
        family, _, protocol, _, where = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol named: without it asyncio leaves Nagle's algorithm on, and answers wait 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        listener.close()
        words = f"cannot listen on {host}:{port}: {error.strerror or error}; is another server there? try another port"
        raise UsageError(words) from None
    bound: int = listener.getsockname()[1]
    shown = host if host and host not in ("0.0.0.0", "::") else ("127.0.0.1" if is_loopback(host) else host or "::")
    return listener, f"http://[{shown}]:{bound}" if ":" in shown else f"http://{shown}:{bound}"


def _check_stale(path: Path) -> None:
    """Raises OSError when a server answers on a unix socket that is there already."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise OSError(98, "another server listens there")
