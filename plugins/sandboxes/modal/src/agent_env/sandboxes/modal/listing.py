"""Looking up sandboxes of ours at Modal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.modal import tags
from agent_env.sandboxes.modal.calls import REQUEST_S, within
from agent_env.sandboxes.modal.failures import to_error
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.sandboxes.modal.sdk import SdkSandbox

_AT_ONCE = 16


async def find(client: Any, sandbox_id: str) -> tuple[SdkSandbox, tags.Found] | None:
    """The sandbox with this id; None when it has ended, is none of ours or never was."""
    it = sdk().errors
    try:
        made: SdkSandbox = await within(sdk().modal.Sandbox.from_id.aio(sandbox_id, client=client))
        if made.returncode is not None:
            return None
        found = tags.read(sandbox_id, await within(made.get_tags.aio()))
    except (it.NotFoundError, it.InvalidError):
        return None
    except Exception as error:
        raise to_error(error, f"sandbox {sandbox_id}", sandbox_id) from error
    return None if found is None else (made, found)


async def every(client: Any, app: Any, labels: Mapping[str, str] | None = None) -> list[tuple[SdkSandbox, tags.Found]]:
    """All sandboxes of ours in the App that run and carry these labels."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(made: SdkSandbox) -> tuple[SdkSandbox, tags.Found] | None:
        async with slots:
            try:
                found = tags.read(made.object_id, await within(made.get_tags.aio()))
            except sdk().errors.NotFoundError:  # it ended meanwhile
                return None
        return None if found is None else (made, found)

    try:
        listed = sdk().modal.Sandbox.list.aio(app_id=app.app_id, tags=tags.wanted(labels), client=client)
        async with asyncio.timeout(REQUEST_S):
            running: list[SdkSandbox] = [made async for made in listed]
        results = await asyncio.gather(*(read(made) for made in running))
    except Exception as error:
        raise to_error(error, "listing sandboxes") from error
    return [result for result in results if result is not None]
