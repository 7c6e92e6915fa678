"""The one bridge that all containers with a network share: an engine has room for about thirty networks only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.sandboxing.once import Once
from agent_env.sandboxes.docker import state
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.plan import NETWORK

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.docker.engine import Engine


class Bridge:
    """Makes the bridge when it is first needed; it stays, as an image does."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self._engine = engine
        self._lock = root / "network.lock"
        self._made: Once[None, None] = Once(NAME)

    def forget(self) -> None:
        """Look again: somebody removed it."""
        self._made.forget(lambda _key, _: True)

    async def ready(self) -> None:
        """It is there.

        Raises:
            QuotaExceeded: the engine has no room for another network; SandboxError: it refuses for another reason.
        """
        await self._made.get(None, lambda _: self._make())

    async def close(self) -> None:
        """Stop what is under way."""
        await self._made.close()

    async def _make(self) -> None:
        try:
            async with state.locked(self._lock):
                query = json.dumps({"name": [NETWORK]})
                found = cast("list[dict[str, Any]]", await self._engine.get("networks", {"filters": query}))
                if any(network["Name"] == NETWORK for network in found):
                    return
                await self._engine.call(
                    "POST",
                    "networks/create",
                    body={
                        "Name": NETWORK,
                        "CheckDuplicate": True,
                        "Driver": "bridge",
                        "Labels": {"agentenv": "network"},
                        "Options": {"com.docker.network.bridge.enable_icc": "false"},
                    },
                )
        except EngineError as error:
            if error.status != 409:
                raise to_error(error, f"network {NETWORK}") from error
