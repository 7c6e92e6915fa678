"""Ending sandboxes, whatever state they are in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_env.errors import SandboxNotFound
from agent_env.sandboxes.daytona.failures import Conflict
from agent_env.sandboxes.daytona.labels import status_of
from agent_env.sandboxes.daytona.sdk import state_of

if TYPE_CHECKING:
    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.sdk import Remote

_PATIENCE_S = 60.0
_FIRST_PAUSE = 0.2
_MOST_PAUSE = 3.0


async def find(api: Api, id_or_name: str) -> Remote | None:
    """A sandbox that has not ended; `None` when there is none."""
    try:
        found = await api.call(lambda: api.client.get(id_or_name), f"sandbox {id_or_name}", sandbox_id=id_or_name)
    except SandboxNotFound:
        return None
    return found if status_of(state_of(found)) != "gone" else None


async def end(api: Api, id_or_name: str) -> bool:
    """Delete a sandbox; False when there was none.

    Daytona refuses to delete what is just changing its state, so that is asked again for a while.

    Raises:
        SandboxError: it could not be deleted; its time to live ends it.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    pause = _FIRST_PAUSE
    remote = await find(api, id_or_name)
    if remote is None:
        return False
    while True:
        try:
            await api.call(remote.delete, f"sandbox {remote.id}: delete", sandbox_id=remote.id)
        except SandboxNotFound:
            return True
        except Conflict:
            if loop.time() + pause > until:
                raise
        else:
            return True
        await asyncio.sleep(pause)
        pause = min(pause * 1.6, _MOST_PAUSE)
        remote = await find(api, id_or_name)
        if remote is None:
            return True
