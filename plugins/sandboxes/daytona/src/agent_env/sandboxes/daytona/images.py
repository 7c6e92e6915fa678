"""Images and snapshots: an env's Dockerfile becomes a snapshot named by its content, once."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import BuildFailed, SandboxError, SandboxNotFound, SandboxUnsupported
from agent_env.plugin.building import context as contexts
from agent_env.plugin.building.dockerfile import instructions
from agent_env.plugin.building.plan import ServerPlan, server_of
from agent_env.plugin.sandbox import BuildContext, HostImage, ImageRef, TemplateRef
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.scratch import Scratch
from agent_env.sandboxes.daytona.failures import to_error
from agent_env.sandboxes.daytona.sdk import NAME, state_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.plugin.building.context import Context
    from agent_env.plugin.sandbox import Image
    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.options import DaytonaOptions
    from agent_env.sandboxes.daytona.size import Size

    Progress = Callable[[str], None]

_LOG_LINES = 80
_POLL_S = 1.0
_BROKEN = ("error", "build_failed")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a sandbox can be created from.

    Attributes:
        title: for messages.
        snapshot: name of a snapshot, or `None`.
        image: name of an image, or `None`.
        start: how a Dockerfile starts its server, where there is a Dockerfile.
        runs_itself: the snapshot has an entrypoint, which Daytona runs.
    """

    title: str
    snapshot: str | None = None
    image: str | None = None
    start: ServerPlan | None = None
    runs_itself: bool = False

    @property
    def command(self) -> tuple[str, ...] | None:
        """Argv of the server as the image's maker wrote it."""
        return self.start.command if self.start is not None else None


class Images:
    """Hands out what sandboxes are created from; builds what is missing, each once at a time."""

    def __init__(self, api: Api, options: DaytonaOptions) -> None:
        self._api = api
        self._options = options
        self._known: Once[tuple[Image, Size], Ready] = Once(NAME)

    async def get(self, image: Image, size: Size, progress: Progress | None = None) -> Ready:
        """What to create from.

        Raises:
            SandboxUnsupported: an image of a kind that is not run here; BuildFailed: with the end of the log.
        """
        return await self._known.get((image, size), lambda say: self._get(image, size, say), progress)

    def forget(self, image: Image, size: Size) -> None:
        """Look again at the next use: Daytona says that the snapshot is gone."""
        self._known.forget(lambda key, _: key == (image, size))

    async def close(self) -> None:
        """Stop waiting for what is built; Daytona finishes it, and its name finds it again."""
        await self._known.close()

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _get(self, image: Image, size: Size, say: Progress) -> Ready:
        match image:
            case BuildContext():
                ready = await self._from_folder(image, size, say)
            case ImageRef():
                ready = Ready(title=f"image {image.name!r}", image=image.name)
            case TemplateRef():
                found = await self._find(image.id)
                if found is None:
                    raise SandboxUnsupported(f"Daytona has no snapshot {image.id!r}", provider=NAME)
                await self._active(image.id, f"snapshot {image.id!r}", found, say)
                ready = Ready(
                    title=f"snapshot {image.id!r}",
                    snapshot=image.id,
                    runs_itself=bool(getattr(found, "entrypoint", None)),
                )
            case HostImage():
                raise SandboxUnsupported(
                    "the daytona sandbox runs Dockerfiles, images and snapshots, not this machine itself", provider=NAME
                )
        return ready

    async def _from_folder(self, image: BuildContext, size: Size, say: Progress) -> Ready:
        context = await asyncio.to_thread(contexts.read, image.path, image.dockerfile, provider=NAME)
        start = await asyncio.to_thread(server_of, image.path, context.source, provider=NAME)
        title = f"env {image.path.name!r}"
        _check(context, title)
        name = f"{context.name}{size.suffix}"
        try:
            async with asyncio.timeout(self._options.build_timeout_s):
                await self._build(name, title, context, size, say)
        except TimeoutError as error:
            raise BuildFailed(
                f"{title}: its snapshot took longer than {self._options.build_timeout_s:g} s", provider=NAME
            ) from error
        return Ready(title=title, snapshot=name, start=start)

    async def _find(self, name: str) -> Any:
        try:
            return await self._api.call(lambda: self._api.client.snapshot.get(name), f"snapshot {name}")
        except SandboxNotFound:
            return None

    async def _build(self, name: str, title: str, context: Context, size: Size, say: Progress) -> None:
        found = await self._find(name)
        if found is not None and state_of(found) in _BROKEN:
            # Of an earlier attempt, which may have failed for a passing reason.
            broken = found
            await self._api.call(lambda: self._api.client.snapshot.delete(broken), f"{title}: removing {name}")
            found = await self._gone(name)
        if found is None:
            say(f"{title}: building the snapshot {name}")
            await self._create(name, title, context, size, say)
        else:
            await self._active(name, title, found, say)
        say(f"{title}: the snapshot {name} is ready")

    async def _gone(self, name: str) -> Any:
        """Wait until a removed snapshot is no more; another one of that name that came instead."""
        while True:
            found = await self._find(name)
            if found is None or state_of(found) not in {*_BROKEN, "removing"}:
                return found
            await asyncio.sleep(_POLL_S)

    async def _create(self, name: str, title: str, context: Context, size: Size, say: Progress) -> None:
        sdk, log = self._api.sdk, deque[str](maxlen=_LOG_LINES)

        def on_log(text: str) -> None:
            for line in text.splitlines():
                log.append(line)
                say(f"{title}: {line}")

        async with Scratch("agentenv-daytona-build") as scratch:
            try:
                image = await scratch.run(_stage, context, scratch.path, sdk)
                params = sdk.CreateSnapshotParams(name=name, image=image, resources=size.resources(sdk))
                await self._api.client.snapshot.create(params, on_logs=on_log, timeout=0)
            except sdk.DaytonaConflictError:  # another process was faster
                await self._active(name, title, await self._find(name), say)
            except Exception as error:
                raise _failed(error, title, "\n".join(log)) from error

    async def _active(self, name: str, title: str, found: Any, say: Progress) -> None:
        """Wait until a snapshot can be used."""
        said = ""
        while (state := state_of(found) if found is not None else "gone") != "active":
            if state in _BROKEN or state == "gone":
                reason = getattr(found, "error_reason", None) or "it was removed"
                raise BuildFailed(f"{title}: the snapshot {name} is not usable: {reason}", provider=NAME)
            if state == "inactive":
                await self._activate(name, found)
            if state != said:
                say(f"{title}: the snapshot {name} is {state}")
                said = state
            await asyncio.sleep(_POLL_S)
            found = await self._find(name)

    async def _activate(self, name: str, found: Any) -> None:
        """Wake a snapshot that nobody used for long."""
        await self._api.call(lambda: self._api.client.snapshot.activate(found), f"snapshot {name}")


def _stage(context: Context, folder: Path, sdk: Any) -> Any:
    """Write a build context, the SDK's image; its Dockerfile stands at the top: the SDK looks for files beside it."""
    context.stage(folder)
    dockerfile = folder / "Dockerfile.agentenv"
    dockerfile.write_text(context.text, encoding="utf-8")
    return sdk.Image.from_dockerfile(dockerfile, strict_context=True)


def _check(context: Context, title: str) -> None:
    """Refuse what the SDK would leave out of the context without a word.

    Raises:
        SandboxUnsupported: a local ADD.
    """
    for word, rest in instructions(context.text):
        sources = [part for part in rest.split() if not part.startswith("--")][:-1]
        if word == "ADD" and any(not re.match(r"https?://|git@", source) for source in sources):
            raise SandboxUnsupported(
                f"{title}: Daytona's SDK uploads the files of COPY and not those of ADD ({rest!r}); write COPY",
                provider=NAME,
            )


def _failed(error: Exception, title: str, log: str) -> SandboxError:
    """A build's failure, told apart from a service that is busy or refuses."""
    if "Failed to create snapshot" in str(error) and "reason:" in str(error):
        reason = str(error).rpartition("reason:")[2].strip()
        return BuildFailed(f"{title}: building its snapshot failed: {reason}\n{log}".rstrip(), log=log, provider=NAME)
    if isinstance(error, OSError):
        return BuildFailed(f"{title}: its build context could not be uploaded: {error}", log=log, provider=NAME)
    failure = to_error(error, f"{title}: snapshot")
    if isinstance(failure, SandboxUnsupported) or type(failure) is SandboxError:
        return BuildFailed(str(failure), log=log, provider=NAME)
    return failure
