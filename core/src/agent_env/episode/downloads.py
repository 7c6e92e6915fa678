"""Files that a task names by URL, fetched by the server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.errors import SandboxUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

MAX_BYTES = 4 * 1024**3
STALL_S = 60.0


@asynccontextmanager
async def download(url: str) -> AsyncGenerator[Path, None]:
    """The content of ``url`` as a temporary local file.

    Raises:
        UsageError: the server of the URL refuses it, or the file is too large.
        SandboxUnavailable: it cannot be reached; worth trying again.
    """
    import httpx

    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="agentenv-download-")
    path = Path(folder) / "file"
    try:
        try:
            async with (
                httpx.AsyncClient(follow_redirects=True, timeout=STALL_S) as client,
                client.stream("GET", url) as reply,
            ):
                if reply.status_code >= 400:
                    message = f"{url}: HTTP {reply.status_code}"
                    if reply.status_code >= 500 or reply.status_code == 429:
                        raise SandboxUnavailable(message)
                    raise UsageError(message)
                size = 0
                with path.open("wb") as file:
                    async for chunk in reply.aiter_bytes(1024 * 1024):
                        size += len(chunk)
                        if size > MAX_BYTES:
                            raise UsageError(f"{url}: larger than {MAX_BYTES >> 30} GiB")
                        await asyncio.to_thread(file.write, chunk)
        except httpx.HTTPError as error:
            raise SandboxUnavailable(f"{url}: {type(error).__name__}: {error}") from error
        yield path
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
