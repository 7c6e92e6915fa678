"""The Docker Engine API: requests, streams of JSON lines and hijacked connections, all on the event loop."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from agent_env.errors import PluginLoadError, SandboxUnavailable
from agent_env.sandboxes.docker.failures import EngineError
from agent_env.sandboxes.docker.hijack import Hijacked
from agent_env.sandboxes.docker.ssh import Forward
from agent_env.sandboxes.docker.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    import aiohttp
    from agent_env.sandboxes.docker.hijack import Sink

_NEWEST_API = (1, 47)
_REQUEST_TIMEOUT = 120.0
_CHUNK = 1 << 18


def _unsent(error: aiohttp.ClientOSError, data: object) -> bool:
    """Whether ssh, which has ended, cannot have passed the whole request on, and it can still be sent as it is.

    A unix socket breaks or is reset when bytes were left unread at the other end; who has read all only hangs up, which
    is another error.
    """
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        return True
    return error.errno in {None, errno.EPIPE, errno.ECONNRESET} and (data is None or isinstance(data, bytes))


class Engine:
    """A client for one engine, bound to the event loop it was opened on."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._client: Any = None
        self._base = ""
        self._opening: asyncio.Task[None] | None = None
        self._forward: Forward | None = None
        self.address = host or ""

    async def open(self) -> None:
        """Find the engine and agree on a version of its API.

        Raises:
            SandboxUnavailable: there is none, or it does not answer.
        """
        if self._opening is None or (self._opening.done() and (self._opening.cancelled() or self._opening.exception())):
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        if self._client is None:
            self.address = await self._resolve()
            if self.address.startswith("ssh://"):
                self._forward = self._forward or Forward(self.address)
                await self._forward.ready()
                self._client = self._connect(f"unix://{self._forward.path}")
            else:
                self._client = self._connect(self._host)
        base = str(self._client.docker_host)
        try:
            async with asyncio.timeout(30):
                version = await self._json("GET", f"{base}/version")
        except TimeoutError as error:
            raise SandboxUnavailable(
                f"the Docker engine at {self.address} does not answer", provider="docker"
            ) from error
        except EngineError as error:
            raise SandboxUnavailable(f"{error}; {_WHERE}", provider="docker") from error
        major, _, minor = str(version.get("ApiVersion", "1.41")).partition(".")
        api = min((int(major), int(minor or 0)), _NEWEST_API)
        self._base = f"{base}/v{api[0]}.{api[1]}"

    async def _resolve(self) -> str:
        """The engine's address, by Docker's own rules where none was named."""
        try:
            import aiodocker
            import aiohttp
        except ImportError as error:
            raise PluginLoadError(
                f"the Docker SDK cannot be imported ({error}); install it with: pip install agentenv-sandbox-docker"
            ) from error
        connector = aiohttp.UnixConnector("/nowhere")
        try:
            found = aiodocker.Docker(url=self._host, connector=connector)
            await found.close()
        except (AssertionError, ValueError, OSError, aiodocker.DockerError) as error:
            raise _none_found(error) from error
        finally:
            await connector.close()
        # No public name has the resolved address.
        return str(found._connection_info)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    @staticmethod
    def _connect(url: str | None) -> Any:
        import aiodocker
        import aiohttp

        try:
            # Hijacked connections last as long as their commands: the usual limit of 100 would block all others.
            client = aiodocker.Docker(url=url, timeout=aiohttp.ClientTimeout(total=None, connect=30))
        except (AssertionError, ValueError, OSError, aiodocker.DockerError) as error:
            raise _none_found(error) from error
        connector = client.session.connector
        if connector is not None:
            connector._limit = 0  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - aiodocker takes no limit
        return client

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        client, self._client = self._client, None
        if client is not None:
            await client.close()
            await asyncio.sleep(0)
        forward, self._forward = self._forward, None
        if forward is not None:
            await forward.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """JSON of a GET.

        Raises:
            EngineError: the engine refused it or cannot be reached.
        """
        return await self.call("GET", path, params=params)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        data: Any = None,
        timeout: float = _REQUEST_TIMEOUT,
    ) -> Any:
        """JSON of any request, `None` when it has no answer."""
        await self.open()
        try:
            async with asyncio.timeout(timeout):
                return await self._json(method, f"{self._base}/{path}", params=params, body=body, data=data)
        except TimeoutError as error:
            raise EngineError(0, f"the engine did not answer {method} {path} within {timeout:g} s") from error

    async def head(self, path: str, header: str, params: Mapping[str, str]) -> str:
        """A header of the answer to HEAD."""
        await self.open()
        async with asyncio.timeout(_REQUEST_TIMEOUT), self._send("HEAD", f"{self._base}/{path}", params) as reply:
            return str(reply.headers.get(header, ""))

    async def lines(
        self, path: str, *, params: Mapping[str, str], data: Any = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects that a long POST writes as it goes on."""
        await self.open()
        async with self._send("POST", f"{self._base}/{path}", params, data=data, headers=headers) as reply:
            rest = b""
            async for chunk in reply.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield cast("dict[str, Any]", json.loads(line))
            if rest.strip():
                yield cast("dict[str, Any]", json.loads(rest))

    async def read(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body of a GET, piece by piece."""
        await self.open()
        async with self._send("GET", f"{self._base}/{path}", params) as reply:
            async for chunk in reply.content.iter_chunked(_CHUNK):
                yield chunk

    async def hijack(self, path: str, body: Any, sink: Sink) -> Hijacked:
        """Start an attached command; what it writes goes to ``sink``."""
        await self.open()
        context = self._tls()
        if context is not None:
            return await self._hijack_tls(context, path, body, sink)
        headers = {"Connection": "Upgrade", "Upgrade": "tcp", "Content-Type": "application/json"}
        reply = await self._request(
            "POST", f"{self._base}/{path}", data=json.dumps(body).encode(), headers=headers, read_until_eof=False
        )
        return await Hijacked.take(reply, sink)

    def _tls(self) -> ssl.SSLContext | None:
        """How this engine's certificate is checked and ours is shown; `None` without TLS."""
        if self._client is None or not self._base.startswith("https:"):
            return None
        found = self._client.connector._ssl  # noqa: SLF001 - aiodocker makes it in several ways and keeps it there
        return found if isinstance(found, ssl.SSLContext) else ssl.create_default_context()

    async def _hijack_tls(self, context: ssl.SSLContext, path: str, body: Any, sink: Sink) -> Hijacked:
        to = urlsplit(self._base)
        try:
            return await upgrade(context, to.hostname or "", to.port or 443, f"{to.path}/{path}", body, sink)
        except EngineError as error:
            raise EngineError(error.status, _message(error.message) or f"HTTP {error.status}") from error
        except OSError as error:
            raise self._lost(error) from error

    async def _json(
        self, method: str, url: str, *, params: Mapping[str, str] | None = None, body: Any = None, data: Any = None
    ) -> Any:
        headers: dict[str, str] = {}
        if body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        elif data is not None:
            headers = {"Content-Type": "application/x-tar"}
        async with self._send(method, url, params, data=data, headers=headers) as reply:
            raw = await reply.read()
        if not raw.strip():
            return None
        try:
            return json.loads(raw)
        except ValueError:
            return raw.decode(errors="replace")

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None = None,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        import aiohttp

        reply = await self._request(method, url, params=dict(params or {}), data=data, headers=dict(headers or {}))
        try:
            yield reply
        except aiohttp.ClientError as error:
            raise self._lost(error) from error
        finally:
            reply.release()

    async def _request(self, method: str, url: str, **more: Any) -> aiohttp.ClientResponse:
        import aiohttp

        if self._client is None:
            raise EngineError(0, "the connection to the Docker engine is closed")
        session = cast("aiohttp.ClientSession", self._client.session)
        try:
            await self._led()
            try:
                reply = await session.request(method, url, **more)
            except aiohttp.ClientOSError as error:
                if not _unsent(error, more.get("data")) or self._forward is None or not await self._forward.ended():
                    raise
                await self._led()
                reply = await session.request(method, url, **more)
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error
        if reply.status < 400:
            return reply
        try:
            text = (await reply.read()).decode(errors="replace")
        finally:
            reply.release()
        raise EngineError(reply.status, _message(text) or f"HTTP {reply.status}", reply.headers.get("Retry-After"))

    async def _led(self) -> None:
        """See that ssh, where there is one, leads to the engine."""
        if self._forward is not None:
            try:
                await self._forward.ready()
            except SandboxUnavailable as error:
                raise EngineError(0, str(error)) from error

    def _lost(self, error: Exception) -> EngineError:
        return EngineError(0, f"cannot reach the Docker engine at {self.address}: {str(error) or type(error).__name__}")


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file's content as a request's body; the caller closes the file, not the HTTP client."""
    while piece := await asyncio.to_thread(file.read, _CHUNK):
        yield piece


_WHERE = "start Docker, or name the engine with DOCKER_HOST or the option docker.host"


def _none_found(error: Exception) -> SandboxUnavailable:
    reason = f": {error}" if str(error) else ""
    return SandboxUnavailable(f"no Docker engine was found{reason}; {_WHERE}", provider="docker")


def _message(text: str) -> str:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text.strip()
    return str(cast("dict[str, object]", value).get("message", text)) if isinstance(value, dict) else text
