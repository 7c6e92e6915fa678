"""The server's side of the guard."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING

from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.docker.guard import GOOD_BYE

if TYPE_CHECKING:
    from pathlib import Path

_QUIT_TIMEOUT = 5.0


class Guard:
    """A process that outlives this one when this one is killed, and then ends its containers at once."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, host: str, root: Path) -> Guard | None:
        """Start it; None when this machine has no room for another process: starting servers reap as well."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "agent_env.sandboxes.docker.guard",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return None
        guard = cls(process)
        guard._say(json.dumps({"host": host, "owner": lease.owner(), "root": str(root)}))  # noqa: SLF001
        return guard

    def _say(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n".encode())

    async def close(self, *, all_ended: bool) -> None:
        """Send it away; when something could not be ended, it has a last try."""
        with contextlib.suppress(OSError):
            if all_ended:
                self._say(GOOD_BYE)
            if self._process.stdin is not None:
                self._process.stdin.close()
                await self._process.stdin.wait_closed()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIT_TIMEOUT):
                await self._process.wait()
