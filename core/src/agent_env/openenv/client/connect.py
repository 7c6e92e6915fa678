"""Opening a WebSocket to a bundle's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.errors import ServerAuthError, ServerError
from agent_env.openenv.client.urls import tls_context
from agent_env.openenv.wire import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.openenv.client.urls import Address
    from websockets.asyncio.client import ClientConnection

_PING_INTERVAL_S = 20.0
_PING_TIMEOUT_S = 60.0  # a trainer may block its event loop for a while
_CLOSE_TIMEOUT_S = 5.0
_TRY_LATER = frozenset({408, 429, 500, 502, 503, 504})


async def connect(
    address: Address, path: str, query: Mapping[str, str], headers: Mapping[str, str], timeout: float
) -> ClientConnection:
    """Connect, without compression and without following redirects, which would carry the token elsewhere.

    Raises:
        ServerAuthError: the server refused the token.
        ServerError: it cannot be reached (retryable) or does not speak WebSocket there.
    """
    from websockets.asyncio import client
    from websockets.exceptions import InvalidHandshake, InvalidStatus

    class Connect(client.connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    options: dict[str, Any] = {"proxy": None} if address.loopback else {}
    if address.secure:
        options["ssl"] = tls_context()
    try:
        return await Connect(
            address.ws(path, **query),
            additional_headers=dict(headers),
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=timeout,
            ping_interval=_PING_INTERVAL_S,
            ping_timeout=_PING_TIMEOUT_S,
            close_timeout=_CLOSE_TIMEOUT_S,
            **options,
        )
    except InvalidStatus as error:
        raise refusal(address, error.response.status_code, has_token=bool(headers)) from None
    except TimeoutError:
        raise ServerError(
            f"no connection to {address} within {timeout:g} s", code="UNREACHABLE", retryable=True
        ) from None
    except OSError as error:
        words = f"cannot reach {address}: {error.strerror or error}"
        raise ServerError(words, code="UNREACHABLE", retryable=True) from None
    except (InvalidHandshake, EOFError) as error:
        words = f"{address} did not complete the WebSocket handshake: {error}"
        raise ServerError(words, code="UNREACHABLE", retryable=True) from None


def refusal(address: Address, status: int, *, has_token: bool) -> ServerError:
    """The error for an HTTP status that is no success."""
    if status == 401:
        words = "refused the token" if has_token else "asks for a token"
        return ServerAuthError(f"{address} {words} (HTTP 401)", code="HTTP_401")
    if status == 403:
        words = f"{address} refused the connection (HTTP 403): check the token, and the address with its path"
        return ServerAuthError(words, code="HTTP_403")
    if status in (404, 405):
        words = f"{address} is no OpenEnv server (HTTP {status}); check the address and its path"
        return ServerError(words, code=f"HTTP_{status}")
    return ServerError(f"{address} answered HTTP {status}", code=f"HTTP_{status}", retryable=status in _TRY_LATER)
