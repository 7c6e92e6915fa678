"""Where the loopback URLs of this process lead, for code that runs on another machine.

A verifier is given an http URL on loopback; when a provider runs it elsewhere, that URL leads nowhere. Whoever listens
on loopback for an env says here what stands behind it, and `agent_env.plugin.code` opens the same way where the code
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_env.plugin.sandbox import Endpoint

_behind: dict[str, Endpoint] = {}


def publish(url: str, endpoint: Endpoint) -> None:
    """``url`` (a base without a trailing slash) leads to ``endpoint`` from now on."""
    _behind[url] = endpoint


def withdraw(url: str) -> None:
    """It does no more; idempotent."""
    _behind.pop(url, None)


def behind(values: Iterable[Any]) -> dict[str, Endpoint]:
    """The published URLs that the JSON values name, with what another machine can reach behind them."""
    there = {url: endpoint for url, endpoint in _behind.items() if endpoint.uds is None}
    texts = list(_texts(list(values))) if there else []
    return {url: to for url, to in there.items() if any(text == url or text.startswith(f"{url}/") for text in texts)}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _texts(item)
