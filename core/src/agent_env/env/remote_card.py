"""The card of a running env, as a client reads it: nulls and absent fields are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit


class CardError(Exception):
    """A card cannot be used for what was asked."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of an extension: what to send where."""

    verb: str
    path: str


class RemoteCard:
    """One env's card, or one child's within a gateway's card.

    Raises:
        CardError: it is no card.
    """

    def __init__(self, raw: object) -> None:
        if not isinstance(raw, dict):
            raise CardError("its card is no JSON object")
        self.raw = cast("dict[str, Any]", raw)
        capabilities = _object(self.raw, "capabilities")
        self.name = str(self.raw.get("name") or "")
        self.children = tuple(RemoteCard(child) for child in _list(self.raw, "children_environments"))
        self.extensions = [
            cast("dict[str, Any]", item) for item in _list(capabilities, "extensions") if isinstance(item, dict)
        ]
        operations = capabilities.get("operations")
        self.operations: tuple[str, ...] | None = (
            tuple(str(item) for item in cast("list[object]", operations)) if isinstance(operations, list) else None
        )
        """What is served at ``rpc_path``; `None` = the card does not say, so all three may be."""

    @property
    def rpc_path(self) -> str:
        """Where data operations go."""
        return _path(self.raw.get("url") or "/agentenv")

    @property
    def mcp_path(self) -> str:
        """Where MCP is spoken."""
        for item in _list(self.raw, "additionalInterfaces"):
            fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
            if fields.get("transport") == "mcp" and fields.get("url"):
                return _path(fields["url"])
        return "/mcp"

    def advertises(self, uri: str) -> bool:
        """Whether the card lists the extension."""
        return any(item.get("uri") == uri for item in self.extensions)

    def method(self, uri: str, name: str | None) -> Method:
        """A method of an extension; without a name the first one listed.

        Raises:
            CardError: the extension or its method is not there, or has no endpoint.
        """
        found = next((item for item in self.extensions if item.get("uri") == uri), None)
        if found is None:
            listed = ", ".join(str(item.get("uri")) for item in self.extensions) or "none"
            raise CardError(f"its card does not list extension {uri} (listed: {listed})")
        params = _object(found, "params")
        methods = _object(params, "methods")
        if name is None:
            name = next(iter(methods), None)
        elif name not in methods:
            raise CardError(f"extension {uri} has no method {name!r} (it has: {', '.join(methods) or 'none'})")
        entry = _object(methods, name) if name is not None else {}
        path = entry.get("endpoint") or params.get("endpoint")
        if not path:
            raise CardError(f"extension {uri} is declared only: its card gives no endpoint to call")
        return Method(str(entry.get("method") or "POST").upper(), _path(path))


def _object(fields: dict[str, Any], key: str) -> dict[str, Any]:
    value = fields.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CardError(f"its card is malformed: {key!r} is no object")
    return cast("dict[str, Any]", value)


def _list(fields: dict[str, Any], key: str) -> list[object]:
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise CardError(f"its card is malformed: {key!r} is no list")
    return cast("list[object]", value)


def _path(raw: object) -> str:
    """The path of an endpoint; a card may spell a whole URL, whose host is the server's view of itself."""
    parts = urlsplit(str(raw))
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    return f"{path}?{parts.query}" if parts.query else path
