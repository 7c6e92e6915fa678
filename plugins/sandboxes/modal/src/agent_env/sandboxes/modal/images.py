"""Images: built or pulled once for what they are made of, outside the deadlines of creates."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import BuildFailed, SandboxError, SandboxUnsupported
from agent_env.plugin.building import context, plan
from agent_env.plugin.sandbox import BuildContext, HostImage, ImageRef, TemplateRef
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.scratch import Scratch
from agent_env.sandboxes.modal.failures import NAME, to_error
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import Image
    from agent_env.sandboxes.modal.account import Account

    Progress = Callable[[str], None]

_LOG_ENTRIES = 60
_LOG_DEADLINE = 10.0
# The command is always given whole, and Modal would put it behind the image's ENTRYPOINT.
_NO_ENTRYPOINT = "ENTRYPOINT []"
_NOTHING = plan.ServerPlan(command=None, workdir=None, port=None)


@dataclass(frozen=True, slots=True)
class Built:
    """An image that the service has.

    Attributes:
        image: the SDK's image.
        plan: how its server is started, as far as the env's folder says.
        own_command: whether it starts a server by itself when no command is given.
    """

    image: Any
    plan: plan.ServerPlan
    own_command: bool


class Images:
    """The images of one provider."""

    def __init__(self, account: Account, timeout: float) -> None:
        self._account = account
        self._timeout = timeout
        self._known: Once[tuple[Image, bool], Built] = Once(NAME)

    async def get(self, image: Image, progress: Progress | None = None, *, commanded: bool = False) -> Built:
        """The image, built or pulled when it is not there.

        Args:
            image: what is asked for.
            progress: told what happens.
            commanded: a command will be given, before which an image by name must put nothing of its own.

        Raises:
            BuildFailed, SandboxUnsupported, SandboxError: as the contract says.
        """
        if isinstance(image, HostImage):
            raise SandboxUnsupported(
                "the modal sandbox runs images; an env of a bundle, an image or a Modal image id has to be named",
                provider=NAME,
            )
        key = (image, commanded and not isinstance(image, BuildContext))
        return await self._known.get(key, lambda say: self._make(key, say), progress)

    async def close(self) -> None:
        """Stop builds under way."""
        await self._known.close()

    async def _make(self, key: tuple[Image, bool], tell: Progress) -> Built:
        image, bare = key
        title = _title(image)

        def say(text: str) -> None:
            tell(f"{title}: {text}")

        try:
            async with asyncio.timeout(self._timeout):
                if isinstance(image, BuildContext):
                    return await self._build(image, title, say)
                client, _ = await self._account.open()
                try:
                    ready = _named(image, client)
                    ready = ready.entrypoint([]) if bare else ready
                except sdk().errors.Error as error:
                    raise to_error(error, title) from error
                say("pulling")
                await self._run(ready, title)
                say("is ready")
                return Built(ready, _NOTHING, own_command=not bare)
        except TimeoutError as error:
            raise BuildFailed(f"{title}: its image took longer than {self._timeout:g} s", provider=NAME) from error

    async def _build(self, image: BuildContext, title: str, say: Progress) -> Built:
        found = await asyncio.to_thread(
            context.read, image.path, image.dockerfile, provider=NAME, extra=_NO_ENTRYPOINT, expands=False
        )
        server = plan.server_of(image.path, found.source, provider=NAME)
        await self._account.open()
        async with Scratch("agentenv-modal-build") as scratch:
            dockerfile = await scratch.run(found.stage, scratch.path)
            ready = sdk().modal.Image.from_dockerfile(dockerfile, context_dir=str(scratch.path), ignore=[])
            say("building its image")
            await self._run(ready, title)
        say("its image is ready")
        return Built(ready, server, own_command=False)

    async def _run(self, image: Any, title: str) -> None:
        _, app = await self._account.open()
        try:
            await image.build.aio(app)
        except sdk().errors.ImageBuildError as error:
            tail = await _log_of(image)
            raise BuildFailed(
                f"{title}: building its image failed: {error}\n{tail}".rstrip(), log=tail, provider=NAME
            ) from error
        except SandboxError:
            raise
        except Exception as error:
            raise to_error(error, f"{title}: building its image") from error


async def _log_of(image: Any) -> str:
    """The end of the output of a build that failed, as far as the service tells it."""
    lines: list[str] = []
    with suppress(Exception):
        async with asyncio.timeout(_LOG_DEADLINE):
            async for entry in image.logs.tail.aio(_LOG_ENTRIES):
                lines.append(str(entry.message))  # noqa: PERF401 - what came before a failure counts
    return "".join(lines).strip()


def _named(image: Image, client: Any) -> Any:
    if isinstance(image, ImageRef):
        return sdk().modal.Image.from_registry(image.name)
    if isinstance(image, TemplateRef):
        return sdk().modal.Image.from_id(image.id, client=client)
    raise SandboxUnsupported(f"the modal sandbox does not run {image!r}", provider=NAME)


def _title(image: Image) -> str:
    if isinstance(image, BuildContext):
        return f"env {image.path.name!r}"
    return f"image {image.name!r}" if isinstance(image, ImageRef) else f"image {getattr(image, 'id', image)!r}"
