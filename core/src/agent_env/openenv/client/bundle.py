"""The HTTP half of the client: health, metadata, splits and tasks of a served bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

from agent_env.errors import ServerError, UsageError
from agent_env.openenv.client.connect import refusal
from agent_env.openenv.client.replies import table
from agent_env.openenv.client.urls import auth_headers, parse_url, tls_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    import httpx

_PAGE = 1000
_TASK_KEYS = frozenset({"id", "name", "index"})


class BundleClient:
    """Reads what a server offers; use it as ``async with BundleClient(url) as client:``.

    Args:
        url: the server's address, http(s) or ws(s); a path prefix is kept.
        token: the server's token; it is never part of an error's text.
        timeout: seconds for each request.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 30.0) -> None:
        self._address = parse_url(url)
        self._headers = auth_headers(token)
        self._timeout = timeout
        self._http: httpx.AsyncClient | None = None
        self._env: str | None = None

    def __repr__(self) -> str:
        return f"BundleClient({str(self._address)!r})"

    async def __aenter__(self) -> Self:
        import ssl

        import httpx

        # Without TLS an empty context does: building a real one takes about 20 ms. It verifies nothing successfully.
        verify = tls_context() if self._address.secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = httpx.AsyncClient(
            headers=self._headers,
            timeout=self._timeout,
            verify=verify,
            follow_redirects=False,
            trust_env=not self._address.loopback,
        )
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def health(self) -> None:
        """Return when the server is healthy.

        Raises:
            ServerError: it cannot be reached, or says that it is not (both retryable).
        """
        answer = table(await self._send("GET", "/health"))
        if answer.get("status") != "healthy":
            raise ServerError(f"{self._address} is not healthy: {answer.get('status')!r}", retryable=True)

    async def metadata(self) -> dict[str, Any]:
        """What the server says of itself: ``name``, ``description``, ``version``, …"""
        return table(await self._send("GET", "/metadata"))

    async def splits(self) -> list[tuple[str, str]]:
        """Name and type (``train``, ``validation``, ``test``) of every split."""
        answer = await self._send("GET", f"/{await self._env_name()}/splits")
        if not isinstance(answer, list):
            raise self._nonsense("splits")
        pairs: list[tuple[str, str]] = []
        for item in cast("list[object]", answer):
            fields = table(item)
            name = fields.get("name")
            if not isinstance(name, str):
                raise self._nonsense("splits")
            pairs.append((name, str(fields.get("type", "validation"))))
        return pairs

    async def num_tasks(self, split: str) -> int:
        """Tasks of a split."""
        answer = table(await self._send("POST", f"/{await self._env_name()}/num_tasks", {"split": split}))
        count = answer.get("num_tasks")
        if isinstance(count, bool) or not isinstance(count, int):
            raise self._nonsense("num_tasks")
        return count

    async def tasks(self, split: str, start: int = 0, stop: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The tasks of a split, read page by page: ``id, name, index, prompt, system_prompt, toolset``.

        Args:
            split: name of the split.
            start: first index.
            stop: index after the last; `None` = to the end.
        """
        path = f"/{await self._env_name()}/task_range"
        end = await self.num_tasks(split) if stop is None else stop
        while start < end:
            body = {"split": split, "start": start, "stop": min(end, start + _PAGE)}
            page = table(await self._send("POST", path, body)).get("tasks")
            if not isinstance(page, list):
                raise self._nonsense("tasks")
            for item in cast("list[object]", page):
                fields = table(item)
                if not fields.keys() >= _TASK_KEYS:
                    raise self._nonsense("tasks")
                yield fields
            if not page:
                return
            start += len(cast("list[object]", page))

    async def _env_name(self) -> str:
        if self._env is None:
            answer = await self._send("GET", "/list_environments")
            names = cast("list[object]", answer) if isinstance(answer, list) else []
            if not names or not isinstance(names[0], str):
                raise self._nonsense("list_environments")
            self._env = quote(names[0], safe="")
        return self._env

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> object:
        import httpx

        http = self._http
        if http is None:
            raise UsageError("use the client as `async with BundleClient(url) as client:`")
        try:
            response = await http.request(method, self._address.http + path, json=body)
        except (httpx.TimeoutException, httpx.TransportError) as error:
            words = f"cannot reach {self._address}: {str(error) or type(error).__name__}"
            raise ServerError(words, code="UNREACHABLE", retryable=True) from None
        if response.status_code in (400, 422):
            words = f"{self._address} refused {path}: {_detail(response)}"
            raise ServerError(words, code=f"HTTP_{response.status_code}")
        if response.status_code != 200:
            raise refusal(self._address, response.status_code, has_token=bool(self._headers))
        try:
            return cast("object", response.json())
        except ValueError:
            raise self._nonsense(path) from None

    def _nonsense(self, what: str) -> ServerError:
        return ServerError(f"{self._address} answered nonsense for {what}: is it a bundle's server?")


def _detail(response: httpx.Response) -> str:
    try:
        return str(table(response.json()).get("detail"))[:500]
    except ValueError:
        return response.text[:500]
