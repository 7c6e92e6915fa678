"""Templates: built once per content and size, by name at the service."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.sandbox import BuildContext, ImageRef, TemplateRef
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.pacing import Pace
from agent_env.sandboxes.e2b import context as contexts
from agent_env.sandboxes.e2b.builder import Build

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import Image, Resources
    from agent_env.sandboxes.e2b.client import Client
    from agent_env.sandboxes.e2b.options import Options

    Progress = Callable[[str], None]

_OURS = re.compile(r"agentenv-[a-z0-9-]+-[0-9a-f]{20}(?:-c(\d+))?(?:-m(\d+))?")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that is ready, and what it forgets: how an env is started in it."""

    name: str
    command: tuple[str, ...] | None = None
    port: int | None = None
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class Size:
    """What a template is built with; `None` = the service's default."""

    cpu: int | None
    memory_mb: int | None

    @property
    def suffix(self) -> str:
        """The end of the template's name."""
        cpu = f"-c{self.cpu}" if self.cpu is not None else ""
        return cpu + (f"-m{self.memory_mb}" if self.memory_mb is not None else "")


class Templates:
    """Hands out templates; builds what is missing, each once at a time."""

    def __init__(self, client: Client, options: Options, *, inline_files: bool) -> None:
        self._client = client
        self._options = options
        self._inline = inline_files
        self._name = client.service.name
        self._known: Once[tuple[Image, Size], Template] = Once(self._name)

    async def get(self, image: Image, resources: Resources | None = None, progress: Progress | None = None) -> Template:
        """The template of an image, there and ready.

        Raises:
            SandboxUnsupported: an image or a size that cannot be; BuildFailed: with the end of the log.
        """
        size = self._size(image, resources)
        return await self._known.get((image, size), lambda say: self._get(image, size, say), progress)

    def forget(self, name: str) -> None:
        """Look again at the next use: the service says that the template is gone."""
        self._known.forget(lambda _, template: template.name == name)

    async def close(self) -> None:
        """Stop what is under way."""
        await self._known.close()

    # -- work ---------------------------------------------------------------------------------------------------------

    def _size(self, image: Image, resources: Resources | None) -> Size:
        cpu, memory = self._options.cpu, self._options.memory_mb
        asked_cpu = resources.cpu if resources is not None else None
        asked_memory = resources.memory_mb if resources is not None else None
        if asked_cpu is not None:
            if asked_cpu != int(asked_cpu) or asked_cpu < 1:
                raise self._refused(f"{asked_cpu:g} CPUs: a template has a whole number of them")
            cpu = int(asked_cpu)
        memory = asked_memory if asked_memory is not None else memory
        if memory is not None and (memory < 128 or memory % 2):
            raise self._refused(f"{memory} MiB of memory: a template has an even number of MiB, at least 128")
        if isinstance(image, TemplateRef):
            ours = _OURS.fullmatch(image.id)
            built = (int(ours[1] or 0), int(ours[2] or 0)) if ours is not None else (0, 0)
            if (asked_cpu is not None and built[0] != cpu) or (asked_memory is not None and built[1] != memory):
                raise self._refused(
                    f"CPUs or memory for the template {image.id!r}: they are fixed when a template is built. Build it "
                    "with them and ask for none here, or give the env a Dockerfile: its template is then built with "
                    "what the task asks for"
                )
            return Size(None, None)
        return Size(cpu, memory)

    def _refused(self, what: str) -> SandboxUnsupported:
        return SandboxUnsupported(f"the {self._name} sandbox cannot give {what}", provider=self._name)

    async def _get(self, image: Image, size: Size, say: Progress) -> Template:
        if isinstance(image, TemplateRef):
            template = Template(image.id)
        elif isinstance(image, BuildContext):
            context = await asyncio.to_thread(contexts.read, image.path, image.dockerfile, self._name)
            template = Template(context.name + size.suffix, context.command, context.port, context.workdir)
            await self._make(template.name, f"env {image.path.name!r}", context, size, say)
        elif isinstance(image, ImageRef):
            digest = hashlib.sha256(image.name.encode()).hexdigest()[:20]
            word = re.sub(r"[^a-z0-9]+", "-", image.name.lower()).strip("-")[:40]
            template = Template(f"agentenv-{word}-{digest}{size.suffix}")
            await self._make(template.name, f"image {image.name!r}", image.name, size, say)
        else:
            raise SandboxUnsupported(
                f"the {self._name} sandbox runs Dockerfiles, images and templates by name, not {image}",
                provider=self._name,
            )
        return template

    async def _make(self, name: str, title: str, source: contexts.Context | str, size: Size, say: Progress) -> None:
        if await self._client.template_ready(name):
            return
        timeout = self._options.build_timeout_s
        try:
            async with asyncio.timeout(timeout):
                alone = Pace(f"{self._name}-{self._client.service.account}-{name}", rate=None, concurrency=1)
                async with alone.slot():
                    if await self._client.template_ready(name):  # another process was faster
                        return
                    say(f"{title}: building the template {name}")
                    build = Build(
                        self._client,
                        title,
                        name,
                        source,
                        cpu=size.cpu,
                        memory_mb=size.memory_mb,
                        say=say,
                        inline_files=self._inline,
                    )
                    await build.run(timeout)
                    say(f"{title}: its template is ready")
        except TimeoutError as error:
            raise BuildFailed(f"{title}: its template took longer than {timeout:g} s", provider=self._name) from error
