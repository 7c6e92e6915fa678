"""Where the loopback URLs of this process lead, for code that runs on another machine.

A verifier is given an http URL on loopback; when a provider runs it elsewhere, that URL leads nowhere. Whoever listens
on loopback for an env says here what stands behind it, and `agent_env.plugin.sandboxing.code` opens the same way where
the code runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_env.plugin.sandbox import Endpoint

# Read by threads as well: values are replaced, never changed.
_behind: dict[str, tuple[Endpoint, ...]] = {}


def publish(url: str, endpoint: Endpoint) -> None:
    """``url`` (a base without a trailing slash) leads to ``endpoint`` until it is withdrawn as often."""
    _behind[url] = (*_behind.get(url, ()), endpoint)


def withdraw(url: str) -> None:
    """Take back one `publish`, if there is one."""
    left = _behind.pop(url, ())[:-1]
    if left:
        _behind[url] = left


def named(values: Iterable[Any]) -> dict[str, Endpoint]:
    """The published URLs that the JSON values name, with what is behind them."""
    known = {url: endpoints[-1] for url, endpoints in list(_behind.items())}
    texts = list(_texts(list(values))) if known else []
    return {url: to for url, to in known.items() if any(text == url or text.startswith(f"{url}/") for text in texts)}


def behind(values: Iterable[Any]) -> dict[str, Endpoint]:
    """Those of them that another machine can reach."""
    return {url: to for url, to in named(values).items() if to.uds is None and to.url.rstrip("/") != url}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _texts(item)
