"""Address and key of a chat endpoint."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

from agent_env.errors import UsageError


def check_base_url(base_url: str) -> str:
    """The address without its trailing slash.

    Raises:
        UsageError: it is no http address, or holds a password.
    """
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("--base-url is no address; write it as http://host:port/v1") from None
    if "@" in parts.netloc:
        raise UsageError("--base-url holds a user name or password: name the key's variable with --api-key-var instead")
    if any(word in parts.query.lower() for word in ("key=", "token=", "secret=", "sig=")):
        raise UsageError("--base-url holds a key: name the key's variable with --api-key-var instead")
    if not usable:
        raise UsageError(f"--base-url {base_url!r}: write it as http://host:port/v1")
    return urlunsplit(parts._replace(path=parts.path.rstrip("/"), fragment=""))


def chat_url(base_url: str) -> str:
    """Where chats go: ``/v1`` is added where the address ends without a version, a query stays."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if path.endswith("/chat/completions"):
        return base_url
    if not path or path.rpartition("/")[2] not in {"v1", "v2", "v3", "v4", "v1beta", "openai"}:
        path += "/v1"
    return urlunsplit(parts._replace(path=f"{path}/chat/completions"))


def read_key(variable: str | None) -> str | None:
    """The key in the environment variable ``variable``.

    Raises:
        UsageError: it is not set, or cannot be sent; the message names the variable only.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"--api-key-var {variable}: that environment variable is not set; export it first")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"--api-key-var {variable}: its value holds characters that no key has")
    return key
