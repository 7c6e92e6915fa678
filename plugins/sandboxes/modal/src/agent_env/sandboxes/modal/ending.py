"""Ending a sandbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_env.errors import SandboxGone, SandboxNotFound
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.failures import to_error

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.sdk import SdkSandbox

_FIRST_WAIT = 0.5
_END_ATTEMPTS = 4


async def end(made: SdkSandbox) -> bool:
    """End a sandbox, whatever it takes; False when it had ended before.

    Raises:
        SandboxError: the service did not take it.
    """
    for attempt in range(1, _END_ATTEMPTS + 1):
        try:
            await within(made.terminate.aio())
            await within(made.detach.aio())
            return True
        except Exception as error:
            mapped = to_error(error, f"sandbox {made.object_id}: end", made.object_id)
            if isinstance(mapped, SandboxNotFound | SandboxGone):
                return False
            if attempt == _END_ATTEMPTS or not mapped.retryable:
                raise mapped from error
        await asyncio.sleep(_FIRST_WAIT * 2**attempt)
    return False
