"""The OpenEnv wire: the server of a bundle (`build_app`) and its client (`agent_env.openenv.client`).

``build_app`` is imported when it is asked for, so that the client side loads none of the server's packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_env.openenv.app import build_app

__all__ = ["build_app"]


def __getattr__(name: str) -> object:
    if name == "build_app":
        try:
            from agent_env.openenv.app import build_app
        except ModuleNotFoundError as error:
            from agent_env.openenv.extra import without_server

            raise without_server(error) from error
        return build_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
