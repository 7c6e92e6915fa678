"""Calls the env's tool as an MCP client would, with the standard library alone.

A reply that is no MCP reply raises: then the episode failed and has no score.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

PHRASES = ("one two three", "Grüße an 世界", "")


def verify(mcp_url: str) -> list[dict[str, Any]]:
    """A row for each phrase: whether the tool answers it unchanged."""
    session = Session(mcp_url)
    try:
        return [{"id": f"echoes {phrase!r}", "result": session.echo(phrase) == phrase} for phrase in PHRASES]
    finally:
        session.close()


class Session:
    """One MCP session over streamable HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._next_id = 0
        about = {"name": "check_echo", "version": "1"}
        answer = self._call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
        self._headers["MCP-Protocol-Version"] = answer["protocolVersion"]
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def echo(self, text: str) -> str:
        """What the tool answers to ``text``."""
        result = self._call("tools/call", {"name": "echo", "arguments": {"text": text}})
        if result.get("isError"):
            raise RuntimeError(f"echo failed: {result['content']}")
        return "".join(part["text"] for part in result["content"] if part["type"] == "text")

    def close(self) -> None:
        """End the session where the server gave it an id."""
        if "Mcp-Session-Id" in self._headers:
            request = urllib.request.Request(self._url, headers=self._headers, method="DELETE")
            with urllib.request.urlopen(request, timeout=10):
                pass

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._next_id += 1
        raw = self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        for message in _messages(raw):
            if message.get("id") == self._next_id and "result" in message:
                result: dict[str, Any] = message["result"]
                return result
        raise RuntimeError(f"{method}: no result in {raw[:300]!r}")

    def _send(self, body: dict[str, Any]) -> str:
        request = urllib.request.Request(self._url, json.dumps(body).encode(), self._headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            session = response.headers.get("Mcp-Session-Id")
            if session is not None:
                self._headers["Mcp-Session-Id"] = session
            text: str = response.read().decode()
        return text


def _messages(raw: str) -> list[dict[str, Any]]:
    """The JSON-RPC messages of a plain reply or of an event stream."""
    if raw.lstrip().startswith("{"):
        return [json.loads(raw)]
    return [
        json.loads(line.removeprefix("data:"))
        for line in raw.splitlines()
        if line.startswith("data:") and line[5:].strip()
    ]
