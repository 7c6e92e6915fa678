"""Building a template with the SDK, in a thread with an event loop of its own: it reads files and packs them."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections import deque
from typing import TYPE_CHECKING, Any

from agent_env.errors import BuildFailed, SandboxError
from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.plugin.sandboxing.tasks import looked_at
from agent_env.sandboxes.e2b import inline
from agent_env.sandboxes.e2b.failures import to_error
from agent_env.sandboxes.e2b.sdk import sdk, text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.sandboxes.e2b.client import Client
    from agent_env.sandboxes.e2b.context import Context

_LOG_LINES = 80


class Build:
    """One build.

    Args:
        client: the account.
        title: for messages.
        name: the template's name.
        source: an env's context, or the name of an image.
        cpu: CPUs, or the service's default.
        memory_mb: memory, or the service's default.
        say: told of progress, on the caller's event loop.
        inline_files: files travel inside the build's commands.
    """

    def __init__(
        self,
        client: Client,
        title: str,
        name: str,
        source: Context | str,
        *,
        cpu: int | None,
        memory_mb: int | None,
        say: Callable[[str], None],
        inline_files: bool,
    ) -> None:
        self._client = client
        self._title = title
        self._name = name
        self._source = source
        self._size = {"cpu_count": cpu, "memory_mb": memory_mb}
        self._say = say
        self._inline = inline_files
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._loop = asyncio.get_running_loop()
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    async def run(self, timeout: float) -> None:
        """Build it.

        Raises:
            BuildFailed: with the end of the log; other SandboxErrors.
        """
        work = looked_at(asyncio.ensure_future(asyncio.to_thread(self._thread, timeout)))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            inner = self._inner
            if inner is not None:
                with contextlib.suppress(RuntimeError):
                    inner[0].call_soon_threadsafe(inner[1].cancel)
            await asyncio.wait([work])
            raise

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _thread(self, timeout: float) -> None:
        with ScratchFolder("agentenv-e2b-build") as folder:
            try:
                asyncio.run(self._run(folder, timeout))
            except asyncio.CancelledError:
                given_up = f"{self._title}: its build was given up"
                raise BuildFailed(given_up, provider=self._client.service.name) from None

    async def _run(self, folder: Path, timeout: float) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._inner = (asyncio.get_running_loop(), task)
        name = self._client.service.name
        try:
            template = self._template(folder)
            async with asyncio.timeout(timeout):
                await sdk().e2b.AsyncTemplate.build(
                    template, self._name, on_build_logs=self._hear, **self._size, **self._params()
                )
        except SandboxError:
            raise
        except TimeoutError as error:
            raise self._failed(f"it took longer than {timeout:g} s") from error
        except ValueError as error:  # the SDK cannot read the Dockerfile
            raise self._failed(text_of(error)) from error
        except Exception as error:
            mapped = to_error(error, f"{self._title}: building its template", self._client.service)
            status = getattr(error, "status_code", None)
            if isinstance(mapped, BuildFailed) or (isinstance(status, int) and 400 <= status < 500 and status != 405):
                raise self._failed(text_of(error)) from error
            mapped.provider = name
            raise mapped from error

    def _params(self) -> dict[str, Any]:
        # Uploads have a deadline of their own, and the whole build has one.
        return {name: value for name, value in self._client.params.items() if name != "request_timeout"}

    def _template(self, folder: Path) -> Any:
        builder = sdk().e2b.AsyncTemplate(file_context_path=str(folder))
        if isinstance(self._source, str):
            return builder.from_image(self._source)
        self._source.stage(folder)
        text = self._source.text
        if self._inline:
            text = inline.without_copies(text, folder, self._title, self._client.service.name)
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):  # the SDK prints its warnings
            template = builder.from_dockerfile(text)
        for line in heard.getvalue().splitlines():
            self._tell(line)
        return template

    def _hear(self, entry: Any) -> None:
        self._tell(str(getattr(entry, "message", entry)))

    def _tell(self, line: str) -> None:
        if line.strip():
            self._log.append(line.rstrip())
            with contextlib.suppress(RuntimeError):  # the server's loop has ended
                self._loop.call_soon_threadsafe(self._say, f"{self._title}: {line.strip()}")

    def _failed(self, why: str) -> BuildFailed:
        tail = "\n".join(self._log)
        message = f"{self._title}: building its template failed: {why}\n{tail}".rstrip()
        return BuildFailed(message, log=tail, provider=self._client.service.name)
