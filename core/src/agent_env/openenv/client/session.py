"""One WebSocket session with a bundle's server: it plays one episode after the other."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.errors import CapacityReached, ServerError, SessionLost, UsageError
from agent_env.openenv.client.connect import connect
from agent_env.openenv.client.replies import ToolReply, table, tool_reply, tool_specs, turn_reply
from agent_env.openenv.client.urls import auth_headers, parse_url
from agent_env.openenv.wire import CLOSE_RESTART, END_TURN, MAX_MESSAGE_BYTES, byte_length, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from agent_env.openenv.client.replies import TurnReply
    from agent_env.plugin.tools import ToolSpec
    from websockets.asyncio.client import ClientConnection

_GRACE_S = 10.0  # the server keeps the deadline itself; only a lost reply runs into the client's own
_ENDING_CODES = frozenset({"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"})


class Session:
    """A session; use it as ``async with Session(url) as session:``. One call at a time.

    It never reconnects: when the connection ends, the episode is gone and every call raises `SessionLost`. A call
    that runs past its deadline, or is cancelled, closes the session, so that a late reply is never taken for another.

    Args:
        url: the server's address, http(s) or ws(s); a path prefix is kept.
        token: the server's token; it is never part of an error's text.
        wait: seconds to wait in line for room at the reset; `None` = a full server refuses at once.
        connect_timeout: seconds for the connection.
    """

    def __init__(
        self, url: str, *, token: str | None = None, wait: float | None = None, connect_timeout: float = 10.0
    ) -> None:
        if wait is not None and not (math.isfinite(wait) and wait >= 0):
            raise UsageError(f"wait must be a number of seconds, not {wait!r}")
        self._address = parse_url(url)
        self._headers = auth_headers(token)
        self._wait = wait
        self._connect_timeout = connect_timeout
        self._socket: ClientConnection | None = None
        self._ended: str | None = None
        self._busy = False

    def __repr__(self) -> str:
        return f"Session({str(self._address)!r})"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect.

        Raises:
            ServerAuthError: the token is missing or wrong.
            ServerError: the server cannot be reached (retryable) or is no OpenEnv server.
        """
        if self._socket is not None or self._ended is not None:
            raise UsageError("a session opens once; make a new one")
        query = {} if self._wait is None else {"wait": f"{self._wait:g}"}
        self._socket = await connect(self._address, "/ws", query, self._headers, self._connect_timeout)

    async def close(self) -> None:
        """End the session; the server tears its episode down. Idempotent."""
        self._ended = self._ended or "it was closed"
        socket, self._socket = self._socket, None
        if socket is not None:
            try:
                await socket.close()
            except BaseException:
                socket.transport.abort()
                raise

    async def reset(
        self,
        *,
        split: str,
        index: int,
        seed: int | None = None,
        episode_id: str | None = None,
        timeout: float = 600.0,
    ) -> TurnReply:
        """Begin a fresh episode; an open one is torn down first.

        Args:
            split: name of the split.
            index: of the task within the split.
            seed: fills the task's ``<seed>``.
            episode_id: becomes the episode's id.
            timeout: seconds for the deploy, besides the wait in line.

        Returns:
            The first turn, or a reply with ``failure`` when the episode could not start.

        Raises:
            CapacityReached: the server is full, also at the end of the wait.
            ServerError: no such task, or the arguments do not fit it.
            SessionLost: the connection ended.
            TimeoutError: no reply in time; the session is closed.
        """
        data: dict[str, Any] = {"split": split, "index": index, "timeout_s": timeout}
        if seed is not None:
            data["seed"] = seed
        if episode_id is not None:
            data["episode_id"] = episode_id
        message = write_json({"type": "reset", "data": data})
        return turn_reply(await self._request(message, timeout + (self._wait or 0.0), "reset"))

    async def list_tools(self, *, timeout: float = 60.0) -> list[ToolSpec]:
        """The tools of the open episode, ``end_turn`` included.

        Raises:
            ServerError, SessionLost, TimeoutError: as `reset`; an empty list is never a failure.
        """
        message = write_json({"type": "step", "data": {"type": "list_tools"}})
        return tool_specs(await self._request(message, timeout, "list_tools"))

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float = 60.0) -> ToolReply:
        """Call a tool of the env.

        Args:
            name: the tool.
            arguments: a JSON object; what is no JSON is answered as the model's mistake.
            timeout: seconds; past them the episode fails with ``tool_timeout``.

        Raises:
            ServerError, SessionLost, TimeoutError: as `reset`.
        """
        try:
            message = _call(name, dict(arguments), {"timeout_s": timeout})
        except ValueError as error:
            return ToolReply(result=None, error_type="invalid_args", message=f"the arguments are no JSON: {error}")
        if (size := byte_length(message)) > MAX_MESSAGE_BYTES:
            words = f"the arguments take {size} bytes; {MAX_MESSAGE_BYTES} are allowed"
            return ToolReply(result=None, error_type="invalid_args", message=words)
        return tool_reply(await self._request(message, timeout, f"tool {name!r}"))

    async def end_turn(
        self, response: str, *, timeout: float = 600.0, invalid_calls: int = 0, truncated: bool = False
    ) -> TurnReply:
        """End the open turn with the agent's response.

        Args:
            response: the agent's words.
            timeout: seconds, verifiers included.
            invalid_calls: calls of the episode whose arguments were no JSON object, for the reward combiner.
            truncated: the model was cut off.

        Returns:
            The next turn, or the end of the episode: scored or failed.

        Raises:
            ServerError, SessionLost, TimeoutError: as `reset`.
        """
        notes: dict[str, Any] = {"timeout_s": timeout}
        if invalid_calls:
            notes["invalid_calls"] = invalid_calls
        if truncated:
            notes["truncated"] = True
        message = _call(END_TURN, {"response": response}, notes)
        return turn_reply(await self._request(message, timeout, END_TURN))

    async def _request(self, message: str, timeout: float, what: str) -> dict[str, Any]:
        """Send one message and return the data of its reply."""
        socket = self._socket
        if socket is None:
            raise SessionLost(f"the session with {self._address} is not open: {self._ended or 'open() was not called'}")
        if self._busy:
            raise UsageError("a session plays one call at a time")
        self._busy = True
        try:
            async with asyncio.timeout(timeout + _GRACE_S):
                raw = await self._exchange(socket, message)
        except TimeoutError:
            self._abort(f"{what} had no reply within {timeout:g} s")
            raise TimeoutError(f"{what}: no reply from {self._address} within {timeout:g} s") from None
        except BaseException:
            self._abort(f"{what} was given up")
            raise
        finally:
            self._busy = False
        return self._data(raw)

    async def _exchange(self, socket: ClientConnection, message: str) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):  # what the server said before it closed can still be read
            await socket.send(message)
        try:
            return await socket.recv()
        except ConnectionClosed as closed:
            raise self._lost(closed) from None

    def _data(self, raw: str | bytes) -> dict[str, Any]:
        try:
            frame = table(read_json(raw)) if isinstance(raw, str) else {}
        except ValueError:
            frame = {}
        kind, data = frame.get("type"), table(frame.get("data"))
        if kind == "error":
            code, words = str(data.get("code")), str(data.get("message"))
            if code in _ENDING_CODES:
                self._abort(words)
            if code == "CAPACITY_REACHED":
                raise CapacityReached(words)
            raise ServerError(words, code=code, retryable=data.get("retryable") is True)
        if kind != "observation":
            self._abort("the server answered something else")
            raise ServerError(f"{self._address} answered {kind!r} instead of an observation: is it an OpenEnv server?")
        return data

    def _lost(self, closed: Exception) -> SessionLost:
        received = cast("Any", closed).rcvd
        if received is None:
            how = "the connection broke"
        elif received.code == CLOSE_RESTART:
            how = "the server stopped or restarts"
        else:
            how = f"closed with {received.code} {received.reason}".rstrip()
        return SessionLost(f"the session with {self._address} ended ({how}); its episode is gone")

    def _abort(self, why: str) -> None:
        self._ended = self._ended or why
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()


def _call(name: str, arguments: dict[str, Any], notes: dict[str, Any]) -> str:
    action = {"type": "call_tool", "tool_name": name, "arguments": arguments, "metadata": {"agentenv": notes}}
    return write_json({"type": "step", "data": action})
