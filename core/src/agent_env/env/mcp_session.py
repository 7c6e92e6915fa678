"""MCP over streamable HTTP, the client's half: one session."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any, cast

from agent_env.env import jsonrpc
from agent_env.env.jsonrpc import RpcError
from agent_env.env.sse import SseParser
from agent_env.errors import EnvError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.env.http.replies import Reply
    from agent_env.env.link import Link

VERSION = "2025-06-18"
"""What we ask for: later ones let a server end the stream of a call in order to be polled for its result."""

_CLOSE_TIMEOUT = 5.0
_ACCEPT = "application/json, text/event-stream"


class McpSession:
    """One session with one MCP endpoint; calls may run side by side."""

    def __init__(self, link: Link, path: str) -> None:
        self._link = link
        self._path = path
        self._ids = itertools.count(1)
        self._headers = {"content-type": "application/json", "accept": _ACCEPT}
        self._answers: set[asyncio.Task[None]] = set()
        self.session_id: str | None = None

    async def open(self, timeout: float) -> None:
        """Start the session.

        Raises:
            EnvError: the env is no MCP server, or its answer cannot be read.
        """
        params = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "agentenv", "version": "1"},
        }
        try:
            result = await self.request("initialize", jsonrpc.dumps(params), timeout=timeout)
        except RpcError as error:
            raise self._link.error(f"initialize: {error.message} (code {error.code})") from error
        version = result.get("protocolVersion")
        if not isinstance(version, str) or not version:
            raise self._link.error("initialize: the reply has no protocolVersion")
        self._headers["mcp-protocol-version"] = version
        await self._notify("notifications/initialized", timeout)

    async def close(self, *, tell: bool = True) -> None:
        """End the session; a server that is gone already is no error.

        Args:
            tell: send the server word of it.
        """
        for task in self._answers:
            task.cancel()
        if self._answers:
            await asyncio.wait(self._answers)
        if tell and self.session_id is not None:
            with contextlib.suppress(EnvError):
                await self._link.send(
                    "DELETE", self._path, what="ending the session", timeout=_CLOSE_TIMEOUT, headers=self._headers
                )
        self.session_id = None

    async def request(self, method: str, params: bytes, *, timeout: float, what: str | None = None) -> dict[str, Any]:
        """Send a request, whose ``params`` are JSON already, and give its result.

        Raises:
            RpcError: the server answered with an error.
            EnvTimeout: it did not answer in time.
            EnvError: it did not answer, or not readably.
        """
        what = what or method
        request_id = next(self._ids)
        body = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (request_id, method.encode(), params)
        stream = _ReplyStream(request_id, lambda message: self._answer(message, timeout))
        reply = await self._link.send(
            "POST", self._path, what=what, timeout=timeout, headers=self._headers, body=body, sink=stream
        )
        self._check(reply, what)
        if method == "initialize":
            self._take_session(reply)
        return self._result(self._message(reply, stream, what), what)

    def _check(self, reply: Reply, what: str) -> None:
        if reply.status < 300:
            return
        if reply.status == 404 and self.session_id is not None:
            raise self._link.error(
                f"{what}: it no longer knows the session: it restarted or ended it, and its state is gone"
            )
        with contextlib.suppress(ValueError):
            # Some servers send JSON-RPC errors with an HTTP error; their message says more than the status.
            message: object = jsonrpc.loads(reply.body)
            if isinstance(message, dict) and isinstance(cast("dict[str, Any]", message).get("error"), dict):
                text = cast("dict[str, Any]", message)["error"].get("message")
                raise self._link.error(f"{what}: HTTP {reply.status}: {str(text)[:1000]}")
        text = reply.body[:1000].decode(errors="replace").strip()
        raise self._link.error(f"{what}: HTTP {reply.status}{f': {text}' if text else ''}")

    def _take_session(self, reply: Reply) -> None:
        session = reply.headers.get("mcp-session-id")
        if session:
            self.session_id = session
            self._headers["mcp-session-id"] = session

    def _message(self, reply: Reply, stream: _ReplyStream, what: str) -> dict[str, Any]:
        match reply.content_type:
            case "text/event-stream":
                if stream.problem is not None:
                    raise self._link.error(f"{what}: {stream.problem}")
                if stream.reply is None:
                    raise self._link.error(f"{what}: the event stream ended before the reply")
                return stream.reply
            case "application/json":
                try:
                    message: object = jsonrpc.loads(reply.body)
                except ValueError as error:
                    raise self._link.error(f"{what}: the reply is no JSON: {error}") from error
                if not isinstance(message, dict):
                    raise self._link.error(f"{what}: the reply is no JSON-RPC object")
                return cast("dict[str, Any]", message)
            case other:
                raise self._link.error(f"{what}: unexpected reply of type {other!r} (HTTP {reply.status})")

    def _result(self, message: dict[str, Any], what: str) -> dict[str, Any]:
        if message.get("error") is not None:
            error: object = message["error"]
            fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
            code = fields.get("code")
            raise RpcError(code if isinstance(code, int) else 0, str(fields.get("message")), fields.get("data"))
        if not isinstance(message.get("result"), dict):
            raise self._link.error(f"{what}: the reply has no result object")
        return cast("dict[str, Any]", message["result"])

    # -- the little that a client sends besides requests --

    async def _notify(self, method: str, timeout: float) -> None:
        body = jsonrpc.dumps({"jsonrpc": "2.0", "method": method})
        reply = await self._link.send(
            "POST", self._path, what=method, timeout=timeout, headers=self._headers, body=body, sink=_Nothing()
        )
        self._check(reply, method)

    def _answer(self, message: dict[str, Any], timeout: float) -> None:
        """Answer what the server asked in the middle of a call, so that the call does not wait for ever."""
        task = asyncio.get_running_loop().create_task(self._send_answer(message, timeout))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _send_answer(self, message: dict[str, Any], timeout: float) -> None:
        if message.get("method") == "ping":
            body = jsonrpc.result_body(message["id"], b"{}")
        else:
            error = RpcError(jsonrpc.METHOD_NOT_FOUND, f"this client does not serve {message.get('method')}")
            body = jsonrpc.error_body(message["id"], error)
        with contextlib.suppress(EnvError):
            await self._link.send(
                "POST",
                self._path,
                what="answer",
                timeout=timeout,
                headers=self._headers,
                body=body,
                sink=_Nothing(),
            )


class _Nothing:
    """Waits for nothing of an event stream."""

    def begin(self, reply: Reply) -> None:
        """Nothing to do."""

    def take(self, piece: bytes) -> bool:
        return bool(piece)


class _ReplyStream:
    """Finds one reply in an event stream."""

    def __init__(self, request_id: int, asked: Callable[[dict[str, Any]], None]) -> None:
        self._id = request_id
        self._asked = asked
        self._parser = SseParser()
        self.reply: dict[str, Any] | None = None
        self.problem: str | None = None

    def begin(self, reply: Reply) -> None:
        """Nothing to do: the caller reads the head."""

    def take(self, piece: bytes) -> bool:
        for event in self._parser.feed(piece):
            if event.event != "message" or not event.data.strip():
                continue
            try:
                message: object = jsonrpc.loads(event.data.encode("utf-8", "surrogatepass"))
            except ValueError as error:
                self.problem = f"an event of the reply is no JSON: {error}"
                return True
            if not isinstance(message, dict):
                continue
            fields = cast("dict[str, Any]", message)
            if "method" in fields:
                if fields.get("id") is not None:
                    self._asked(fields)
            elif fields.get("id") == self._id and ("result" in fields or "error" in fields):
                self.reply = fields
                return True
        return False
