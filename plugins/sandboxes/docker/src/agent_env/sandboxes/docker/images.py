"""Images: built once per content, pulled when missing, and what they say of themselves."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import BuildFailed, SandboxError, SandboxUnsupported
from agent_env.plugin.building import context as contexts
from agent_env.plugin.sandbox import BuildContext, ImageRef
from agent_env.plugin.sandboxing.once import Once
from agent_env.sandboxes.docker import state
from agent_env.sandboxes.docker.engine import pieces
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.settings import DockerSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from agent_env.plugin.building.context import Context
    from agent_env.plugin.sandbox import Image
    from agent_env.sandboxes.docker.engine import Engine

    Progress = Callable[[str], None]

_LOG_LINES = 80
_NOISE = ("--->", "Removing intermediate container", "Successfully ")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the provider has to know of an image.

    Attributes:
        id: its content address.
        name: for messages.
        user: user of its processes, as the image says.
        workdir: folder its processes start in.
        ports: TCP ports that it exposes.
        runs: whether it says what to run.
        settings: of the env's ``agentenv.toml``.
    """

    id: str
    name: str
    user: str
    workdir: str
    ports: tuple[int, ...]
    runs: bool
    settings: DockerSettings

    @property
    def uid(self) -> int | None:
        """The user by number, as far as the image tells it."""
        name = self.user.partition(":")[0] or "0"
        return int(name) if name.isdigit() else None


def tag_of(context: Context) -> str:
    """Name of the image that is built from a context."""
    name = re.sub(r"[^a-z0-9]+", "-", context.folder.name.lower()).strip("-") or "env"
    return f"agentenv/{name}:{context.digest[:24]}"


class Images:
    """Hands out images; builds and pulls what is missing, each once at a time."""

    def __init__(self, engine: Engine, root: Path, timeout: float) -> None:
        self._engine = engine
        self._root = root
        self._timeout = timeout
        self._facts: Once[Image, Facts] = Once(NAME)

    async def get(self, image: Image, progress: Progress | None = None) -> Facts:
        """The image, there and ready.

        Raises:
            SandboxUnsupported: an image of a kind that is not run here; BuildFailed: with the end of the log.
        """
        return await self._facts.get(image, lambda say: self._get(image, say), progress)

    def forget(self, image: Image) -> None:
        """Look again at the next use: the engine says that the image is gone."""
        self._facts.forget(lambda known, _: known == image)

    async def close(self) -> None:
        """Stop what is under way."""
        await self._facts.close()

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _get(self, image: Image, say: Progress) -> Facts:
        settings = DockerSettings()
        if isinstance(image, BuildContext):
            settings = await asyncio.to_thread(read_settings, image.path)
            context = await asyncio.to_thread(contexts.read, image.path, image.dockerfile, provider="docker")
            name, title = tag_of(context), f"env {image.path.name!r}"
            if await self._inspect(name) is None:
                await self._alone(context.digest[:24], title, lambda: self._build(context, say))
        elif isinstance(image, ImageRef):
            name = title = image.name
            if await self._inspect(name) is None:
                await self._alone(name, title, lambda: self._pull(name, say))
        else:
            raise SandboxUnsupported(
                f"the docker sandbox runs Dockerfiles and images by name, not {image}", provider="docker"
            )
        found = await self._inspect(name)
        if found is None:
            raise BuildFailed(f"{title}: the image {name} is not there after it was made", provider="docker")
        return _facts(found, name, settings)

    async def _inspect(self, name: str) -> dict[str, Any] | None:
        try:
            return cast("dict[str, Any]", await self._engine.get(f"images/{name}/json"))
        except EngineError as error:
            if error.status == 404:
                return None
            raise to_error(error, f"image {name}") from error

    async def _alone(self, key: str, title: str, work: Callable[[], Any]) -> None:
        """Do it when no other process of this machine did meanwhile."""
        lock = self._root / ("".join(char if char.isalnum() else "_" for char in key) + ".lock")
        try:
            async with asyncio.timeout(self._timeout), state.locked(lock):
                await work()
        except TimeoutError as error:
            raise BuildFailed(f"{title}: its image took longer than {self._timeout:g} s", provider="docker") from error
        except EngineError as error:
            raise to_error(error, f"{title}: image") from error

    async def _build(self, context: Context, say: Progress) -> None:
        name = context.folder.name
        if await self._inspect(tag_of(context)) is not None:  # another process was faster
            return
        say(f"{name}: building its image")
        params = {
            "t": tag_of(context),
            "dockerfile": context.dockerfile,
            "rm": "1",
            "forcerm": "1",
            "labels": json.dumps({"agentenv": "image", "agentenv.digest": context.digest}),
        }
        packed = await asyncio.to_thread(context.pack)
        with packed:
            lines = self._engine.lines(
                "build", params=params, data=pieces(packed), headers={"Content-Type": "application/x-tar"}
            )
            await self._follow(lines, name, f"env {name!r}: building its image", say)
        say(f"{name}: its image is ready")

    async def _pull(self, name: str, say: Progress) -> None:
        if await self._inspect(name) is not None:
            return
        say(f"{name}: pulling")
        image, _, tag = name.partition("@") if "@" in name else name.rpartition(":")
        if not image or "/" in tag:
            image, tag = name, "latest"
        lines = self._engine.lines("images/create", params={"fromImage": image, "tag": tag})
        await self._follow(lines, name, f"image {name!r}: pulling it", say)
        say(f"{name}: pulled")

    @staticmethod
    async def _follow(lines: AsyncIterator[dict[str, Any]], name: str, doing: str, say: Progress) -> None:
        log: deque[str] = deque(maxlen=_LOG_LINES)
        async with aclosing(cast("Any", lines)) as entries:
            try:
                async for entry in entries:
                    text = str(entry.get("stream") or entry.get("status") or "").strip()
                    if text and "progressDetail" not in entry:
                        log.append(text)
                        if not text.startswith(_NOISE):
                            say(f"{name}: {text}")
                    if "error" in entry:
                        raise _failed(doing, str(entry["error"]), log)
            except EngineError as error:
                if error.status in {400, 404, 500}:
                    raise _failed(doing, error.message, log) from error
                raise


def _failed(doing: str, why: str, log: deque[str]) -> SandboxError:
    tail = "\n".join(log)
    hint = ""
    lowered = why.lower()
    if "toomanyrequests" in lowered or "unauthorized" in lowered:
        return to_error(EngineError(500, why), doing)
    if any(word in lowered for word in ("pull access denied", "dial tcp", "no such host", "not found: manifest")):
        hint = " (is the image's name right, and can the engine reach its registry? `docker pull` tries it)"
    return BuildFailed(f"{doing} failed: {why}{hint}\n{tail}".rstrip(), log=tail, provider="docker")


def _facts(found: dict[str, Any], name: str, settings: DockerSettings) -> Facts:
    config: dict[str, Any] = found.get("Config") or {}
    exposed: dict[str, Any] = config.get("ExposedPorts") or {}
    return Facts(
        id=str(found["Id"]),
        name=name,
        user=str(config.get("User") or ""),
        workdir=str(config.get("WorkingDir") or "/"),
        ports=tuple(int(port.partition("/")[0]) for port in exposed if port.endswith("/tcp")),
        runs=bool(config.get("Cmd") or config.get("Entrypoint")),
        settings=settings,
    )
