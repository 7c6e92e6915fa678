"""The client of one running env: MCP tools, data operations and extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.env import jsonrpc
from agent_env.env.answers import excerpt
from agent_env.env.card import CARD_PATH
from agent_env.env.data_client import call_data
from agent_env.env.extension_client import call_method
from agent_env.env.jsonrpc import RpcError
from agent_env.env.link import Link
from agent_env.env.mcp_session import McpSession
from agent_env.env.remote_card import CardError, RemoteCard
from agent_env.env.transport import MAX_REPLY
from agent_env.errors import EnvError, EnvUnsupported
from agent_env.plugin.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from agent_env.plugin.sandbox import Endpoint

_CALL_TIMEOUT = 600.0
_ACCEPT = {"accept": "application/json"}
_MOST_PAGES = 1000


class EnvClient:
    """Plays one env; use it from one event loop. Nothing is ever retried: after a failed call the env's state is
    unknown.

    Works with envs of this SDK, with envs of the public AgentEnv protocol, also behind a gateway, and with any MCP
    server that speaks streamable HTTP; the last have tools only.

    Args:
        endpoint: where the env is.
        name: its name for messages and for `service`.
        max_reply: most bytes of one reply.

    Attributes:
        card: the env's card, `None` for a plain MCP server.
    """

    def __init__(self, endpoint: Endpoint, *, name: str, max_reply: int = MAX_REPLY) -> None:
        self.name = name
        self.endpoint = endpoint
        self.card: RemoteCard | None = None
        self.mcp_path = "/mcp"
        self._link = Link(endpoint, name, max_reply)
        self._session: McpSession | None = None

    # -- opening and closing --

    async def open(self, *, timeout: float = 30.0) -> None:
        """Read the card and start an MCP session; each of the requests gets ``timeout`` seconds.

        Raises:
            EnvError: the env cannot be reached, or is no MCP server.
        """
        self._link.open()
        try:
            await self._read_card(timeout)
            session = McpSession(self._link, self.mcp_path)
            await session.open(timeout)
            self._session = session
        except BaseException:
            await self._link.close()
            raise

    async def close(self, *, end_session: bool = True) -> None:
        """Close the connections; idempotent.

        Args:
            end_session: tell the server, within five seconds; not worth it when the server is ended next.
        """
        session, self._session = self._session, None
        try:
            if session is not None:
                await session.close(tell=end_session)
        finally:
            await self._link.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def mcp_url(self) -> str:
        """The URL of the MCP endpoint; for an env on a unix socket `agent_env.env.relay` gives one to connect to."""
        return self.endpoint.url.rstrip("/") + self.mcp_path

    async def _read_card(self, timeout: float) -> None:
        reply = await self._link.send("GET", CARD_PATH, what="card", timeout=timeout, headers=_ACCEPT)
        if reply.status == 404:
            return  # a plain MCP server
        if reply.status != 200:
            raise self._link.error(f"card: HTTP {reply.status}{excerpt(reply)}")
        try:
            card = RemoteCard(jsonrpc.loads(reply.body))
            self.mcp_path = card.mcp_path
        except (CardError, ValueError) as error:
            raise self._link.error(str(error)) from error
        self.card = card

    # -- tools --

    async def list_tools(self, *, timeout: float = 30.0) -> Sequence[ToolSpec]:
        """The tools that the env serves now.

        Raises:
            EnvError: the env failed or answered nonsense.
        """
        tools: list[ToolSpec] = []
        params = b"{}"
        for _ in range(_MOST_PAGES):
            result = await self._mcp("tools/list", params, timeout)
            page = result.get("tools")
            if not isinstance(page, list):
                raise self._link.error("tools/list: the result has no list of tools")
            tools.extend(self._tool(item) for item in cast("list[object]", page))
            cursor = result.get("nextCursor")
            if not cursor:
                return tools
            params = jsonrpc.dumps({"cursor": cursor})
        raise self._link.error(f"tools/list: more than {_MOST_PAGES} pages")

    def _tool(self, raw: object) -> ToolSpec:
        fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
        name, schema = fields.get("name"), fields.get("inputSchema")
        if not isinstance(name, str) or not name:
            raise self._link.error("tools/list: a tool has no name")
        if schema is not None and not isinstance(schema, dict):
            raise self._link.error(f"tools/list: the inputSchema of {name!r} is no object")
        description = fields.get("description")
        return ToolSpec(
            name,
            description if isinstance(description, str) else "",
            cast("dict[str, Any]", schema) if schema else {"type": "object", "properties": {}},
        )

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Call a tool. What the caller did wrong, wrong arguments included, is a result with ``is_error``.

        Args:
            name: the tool.
            arguments: JSON values.
            timeout: seconds; default 600.

        Raises:
            EnvTimeout: no answer in time; whether the call took effect is unknown.
            EnvError: the env failed or answered nonsense.
        """
        what = f"tool {name}"
        try:
            params = jsonrpc.dumps_text({"name": name, "arguments": dict(arguments)})
        except (ValueError, TypeError) as error:
            return _mistake(f"{name}: the arguments are no JSON: {error}")
        try:
            result = await self._mcp("tools/call", params, _CALL_TIMEOUT if timeout is None else timeout, what)
        except _CallerMistake as error:
            return _mistake(str(error))
        return self._tool_result(result, what)

    def _tool_result(self, result: dict[str, Any], what: str) -> ToolResult:
        content: object = result.get("content")
        parts = cast("list[object]", content) if isinstance(content, list) else None
        if content is None:
            parts = []
        if parts is None or not all(
            isinstance(part, dict) and isinstance(cast("dict[str, Any]", part).get("type"), str) for part in parts
        ):
            raise self._link.error(f"{what}: the result's content is no list of content parts")
        if any(part.get("type") == "text" and not isinstance(part.get("text"), str) for part in _dicts(parts)):
            raise self._link.error(f"{what}: a text part of the result has no text")
        meta = result.get("_meta")
        return ToolResult(
            content=_dicts(parts),
            structured=result.get("structuredContent"),
            is_error=result.get("isError") is True,
            meta=cast("dict[str, Any]", meta) if isinstance(meta, dict) else None,
        )

    async def _mcp(self, method: str, params: bytes, timeout: float, what: str | None = None) -> dict[str, Any]:
        if self._session is None:
            raise self._link.error(f"{what or method}: the client is not open")
        try:
            return await self._session.request(method, params, timeout=timeout, what=what)
        except RpcError as error:
            if error.code == jsonrpc.INVALID_PARAMS and method == "tools/call":
                # Many MCP servers answer wrong arguments and unknown tools so: the caller's mistake, not theirs.
                raise _CallerMistake(error.message) from error
            raise self._link.error(f"{what or method}: {error.message} (code {error.code})") from error

    # -- data --

    async def data_reset(self, *, timeout: float | None = None) -> None:
        """Make the env forget all data.

        Raises:
            EnvRequestError: the env refused; EnvError: it does not serve this, or failed.
        """
        await self._data("data/reset", {}, timeout)

    async def data_add(self, parts: Sequence[Mapping[str, Any]], *, timeout: float | None = None) -> None:
        """Load data into the env.

        Raises:
            EnvRequestError: the env refused; EnvError: it does not serve this, or failed.
        """
        await self._data("data/add", {"parts": [dict(part) for part in parts]}, timeout)

    async def data_get(self, *, timeout: float | None = None) -> Sequence[Mapping[str, Any]]:
        """The env's data, as parts.

        Raises:
            EnvRequestError: the env refused; EnvError: it does not serve this, or failed.
        """
        result = await self._data("data/get", {}, timeout)
        parts = result.get("parts")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in cast("list[object]", parts)):
            raise self._link.error("data/get: the result has no list of parts")
        return cast("list[dict[str, Any]]", parts)

    async def _data(self, operation: str, params: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        return await call_data(self._link, self._need_card(operation), operation, params, timeout)

    # -- extensions --

    def services(self) -> tuple[str, ...]:
        """Names that a task may call services by: a gateway's children, else the env itself."""
        if self.card is None:
            return ()
        return tuple(child.name for child in self.card.children) or (self.card.name or self.name,)

    def advertises(self, uri: str, *, service: str | None = None) -> bool:
        """Whether the env, or the service behind its gateway, lists an extension."""
        return any(card.advertises(uri) for card in self._cards(service))

    async def call_extension(
        self,
        uri: str,
        params: Mapping[str, Any],
        *,
        method: str | None = None,
        timeout: float = 30.0,
        service: str | None = None,
    ) -> Any:
        """Call a method of an extension.

        Args:
            uri: the extension.
            params: JSON values; a GET method gets them in the query string.
            method: one of its methods; default: the first that the card lists.
            timeout: seconds.
            service: name of a service behind a gateway; default: whichever lists the extension.

        Returns:
            The JSON value that the env answered.

        Raises:
            EnvRequestError: the env refused, with its code and whether the request took effect.
            EnvTimeout: no answer in time.
            EnvError: there is no such extension, or the env failed.
        """
        what = f"extension {uri}"
        self._need_card(what)
        cards = self._cards(service)
        card = next((card for card in cards if card.advertises(uri)), cards[0] if cards else None)
        if card is None:
            known = ", ".join(self.services())
            raise self._link.error(f"{what}: there is no service {service!r} (there are: {known})")
        return await call_method(self._link, card, uri, method, params, timeout)

    def _cards(self, service: str | None) -> tuple[RemoteCard, ...]:
        """Cards that may serve a call, the likeliest first."""
        if self.card is None:
            return ()
        if service is None:
            return (self.card, *self.card.children)
        children = tuple(child for child in self.card.children if child.name == service)
        own = service in (self.card.name, self.name) and not children
        return (self.card,) if own else children

    def _need_card(self, what: str) -> RemoteCard:
        if self.card is None:
            if self._session is None:
                raise self._link.error(f"{what}: the client is not open")
            raise EnvUnsupported(
                f"env {self.name!r}: {what}: it is a plain MCP server without an AgentEnv card: it has tools, "
                "but neither data operations nor extensions"
            )
        return self.card


class _CallerMistake(EnvError):
    """The server refused the call's parameters."""


def _dicts(parts: list[object]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", parts)


def _mistake(text: str) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}], is_error=True)
