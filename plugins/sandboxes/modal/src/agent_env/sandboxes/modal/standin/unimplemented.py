"""Services of the wire with every method refused, to be filled with those that are played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from grpclib import GRPCError, Status

if TYPE_CHECKING:
    from collections.abc import Iterable


def _refusing(name: str) -> Any:
    async def refuse(_self: object, _stream: object) -> None:
        raise GRPCError(Status.UNIMPLEMENTED, f"the stand-in does not play {name}")

    return refuse


def filled(base: type[Any]) -> Any:
    """``base`` with its abstract methods answered UNIMPLEMENTED."""
    names = cast("Iterable[str]", getattr(base, "__abstractmethods__", ()))
    methods: dict[str, Any] = {name: _refusing(name) for name in names}
    return type(f"Refusing{base.__name__}", (base,), methods)
