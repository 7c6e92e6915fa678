"""Addresses of a bundle's server: http(s) or ws(s), a path prefix kept, bare hosts allowed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from agent_env.errors import UsageError

if TYPE_CHECKING:
    import ssl

_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is.

    Attributes:
        secure: over TLS.
        netloc: host and port, with user information where the URL has it.
        host: the host alone.
        path: the path prefix without a trailing slash.
    """

    secure: bool
    netloc: str
    host: str
    path: str

    @property
    def http(self) -> str:
        """The base URL for HTTP."""
        return urlunsplit(("https" if self.secure else "http", self.netloc, self.path, "", ""))

    def ws(self, path: str, **query: str) -> str:
        """The URL of a WebSocket below the prefix."""
        scheme = "wss" if self.secure else "ws"
        return urlunsplit((scheme, self.netloc, self.path + path, urlencode(query), ""))

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine, where no proxy has any business."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        """The address for messages: user information is left out."""
        netloc = self.netloc.rpartition("@")[2]
        return urlunsplit(("https" if self.secure else "http", netloc, self.path, "", ""))


def parse_url(url: str) -> Address:
    """Read a server's URL.

    Raises:
        UsageError: it is no http, https, ws or wss address.
    """
    text = url.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        parts, host = None, None
    if parts is None or not host or parts.scheme not in _SECURE:
        raise UsageError(f"{text.rpartition('@')[2]!r} is no server address; expected something like http://host:8000")
    return Address(secure=_SECURE[parts.scheme], netloc=parts.netloc, host=host, path=parts.path.rstrip("/"))


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """One TLS context for the process: building one takes about 20 ms."""
    import ssl

    return ssl.create_default_context()


def auth_headers(token: str | None) -> dict[str, str]:
    """The header that carries the token.

    Raises:
        UsageError: the token is empty or cannot stand in a header.
    """
    if token is None:
        return {}
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise UsageError("the token is empty or holds characters that cannot stand in an HTTP header")
    return {"Authorization": f"Bearer {token}"}
