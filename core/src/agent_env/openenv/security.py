"""The server's token, and the limit of what it reads."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import logging
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

logger = logging.getLogger("agent_env.openenv")

_OPEN_PATH = "/health"
_SCHEME = b"bearer "
_DRAIN_S = 2.0
_DRAIN_BYTES = 4 * 1024 * 1024
_UNPROVEN = '{"detail":"a valid token is needed: send it as \\"Authorization: Bearer <token>\\""}'
_FOREIGN = '{"detail":"web pages of other origins are refused; a server with a token takes them"}'


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warn_if_open(host: str, token: str | None) -> bool:
    """Say loudly when anybody who reaches ``host`` may play; True when it was said."""
    if token is not None or is_loopback(host):
        return False
    line = "!" * 78
    logger.warning(
        "%s\nNO TOKEN: everybody who can reach %s may run this bundle's envs and read its tasks.\n"
        "Give the server a token (agentenv serve --token-var NAME, build_app(token=...)) or listen on 127.0.0.1.\n%s",
        line,
        host or "this machine",
        line,
    )
    return True


def check_token(token: str | None) -> str | None:
    """The token, when it can stand in a header.

    Raises:
        UsageError: it is empty or holds characters that no header carries. The message never holds the token.
    """
    if token is None:
        return None
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise UsageError("the server's token is empty or holds characters that cannot stand in an HTTP header")
    return token


class Guard:
    """Asks every request but ``/health`` for the token, keeps browsers' foreign pages out, and limits bodies.

    Without a token a server on loopback trusts who can reach it, and so does a web page in the user's own browser:
    what a page of another origin sends is refused. Programs send no ``Origin``.

    Args:
        token: the token, or `None` for an open server.
        max_body: most bytes of a request's body.
    """

    __slots__ = ("__token", "max_body")

    def __init__(self, token: str | None, *, max_body: int) -> None:
        self.__token = None if token is None else token.encode()
        self.max_body = max_body

    async def lets_in(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether a request may go on; the others are answered here."""
        token = self.__token
        if token is None:
            if not _foreign_page(scope):
                return True
            await _refuse(scope, receive, send, 403, _FOREIGN)
            return False
        if _bears(scope, token) or (scope["type"] == "http" and _path(scope) == _OPEN_PATH):
            return True
        await _refuse(scope, receive, send, 401, _UNPROVEN)
        return False


class GuardMiddleware:
    """`Guard` around an application."""

    def __init__(self, app: App, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif await self._guard.lets_in(scope, receive, send):
            if scope["type"] == "http":
                await self._limited(scope, receive, send)
            else:
                await self._app(scope, receive, send)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._guard.max_body
        if any(
            name == b"content-length" and value.isdigit() and int(value) > limit for name, value in scope["headers"]
        ):
            await self._too_large(receive, send)
            return
        read = 0
        started = False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:  # chunked: no length was announced
                raise _TooLarge
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except _TooLarge:
            if not started:
                await self._too_large(receive, send)

    async def _too_large(self, receive: Receive, send: Send) -> None:
        # A client that is still sending would meet a closed connection instead of the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                drained = 0
                while drained < _DRAIN_BYTES:
                    message = await receive()
                    drained += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await _answer(send, 413, f'{{"detail":"the body is larger than {self._guard.max_body} bytes"}}')


class _TooLarge(Exception):
    """A body without an announced length went over the limit."""


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def _bears(scope: Scope, token: bytes) -> bool:
    """Whether the one Authorization header holds the token."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        return False
    value: bytes = given[0].strip()
    return value[: len(_SCHEME)].lower() == _SCHEME and hmac.compare_digest(value[len(_SCHEME) :].strip(), token)


def _foreign_page(scope: Scope) -> bool:
    """Whether a web page of another origin sent it."""
    origin = host = None
    for name, value in scope["headers"]:
        if name == b"origin":
            origin = value
        elif name == b"host":
            host = value
    return origin is not None and (host is None or origin.partition(b"://")[2] != host)


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, detail: str) -> None:
    if scope["type"] == "http":
        await _answer(send, status, detail)
        return
    await receive()  # websocket.connect
    if "websocket.http.response" in scope.get("extensions", {}):
        await _answer(send, status, detail, prefix="websocket.http")
    else:
        await send({"type": "websocket.close", "code": 1008})


async def _answer(send: Send, status: int, body: str, *, prefix: str = "http") -> None:
    raw = body.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": raw})
