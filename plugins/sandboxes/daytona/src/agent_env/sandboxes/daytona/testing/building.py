"""The stand-in's image builds: COPY, ENV, WORKDIR and RUN of a Dockerfile on this host's own Python."""

from __future__ import annotations

import asyncio
import io
import shlex
import shutil
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_env.plugin.building.dockerfile import instructions
from agent_env.sandboxes.daytona.testing.machine import command, environment, make_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LEFT_OUT = ("pip", "uv", "apt-get", "apt", "apk", "useradd", "adduser", "groupadd", "addgroup")
"""Programs that need a network or another user's rights: the host has what they would install."""


class BuildError(Exception):
    """A build that failed; its text is the reason."""


@dataclass(slots=True)
class Built:
    """An image: its files, variables and work folder."""

    root: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    workdir: str = "/"


async def build(dockerfile: str, contexts: Sequence[bytes], folder: Path, log: list[str]) -> Built:
    """Build an image into ``folder``.

    Args:
        dockerfile: its text.
        contexts: tar files that were uploaded.
        folder: an empty folder.
        log: gets the build's lines.

    Raises:
        BuildError: an instruction failed.
    """
    context, root = folder / "context", folder / "root"
    await asyncio.to_thread(_unpack, contexts, context)
    await asyncio.to_thread(make_root, root, None)
    built = Built(root)
    for word, rest in instructions(dockerfile):
        log.append(f"{word} {rest}")
        if word == "WORKDIR":
            built.workdir = rest if rest.startswith("/") else f"{built.workdir.rstrip('/')}/{rest}"
            _inside(root, built.workdir).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            built.env = await _env(built.env, rest)
        elif word == "COPY":
            await asyncio.to_thread(_copy, context, built, rest)
        elif word == "RUN" and not any(name in rest.split() for name in _LEFT_OUT):
            await _run(built, rest, log)
    await asyncio.to_thread(shutil.rmtree, context, ignore_errors=True)
    return built


def _unpack(contexts: Sequence[bytes], context: Path) -> None:
    context.mkdir(parents=True)
    for data in contexts:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(context, filter="tar")


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


async def _env(env: Mapping[str, str], text: str) -> dict[str, str]:
    """Variables after an ENV, whose references the shell resolves."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f"export {text}; exec /usr/bin/env -0",
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    pairs = (line.partition("=") for line in out.decode().split("\0") if line)
    return {name: value for name, _, value in pairs if name not in {"PWD", "SHLVL", "_", "OLDPWD"}}


def _copy(context: Path, built: Built, text: str) -> None:
    words = [word for word in shlex.split(text) if not word.startswith("--")]
    *sources, target = words
    place = target if target.startswith("/") else f"{built.workdir}/{target}"
    into = _inside(built.root, place)
    for source in sources:
        found = sorted(context.glob(source)) if any(char in source for char in "*?[") else [context / source]
        if not found or not found[0].exists():
            raise BuildError(f"COPY failed: {source} is not in the build context")
        for path in found:
            if path.is_dir():
                shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
                continue
            many = target.endswith(("/", ".")) or len(sources) > 1 or into.is_dir()
            goal = into / path.name if many else into
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, goal)


async def _run(built: Built, text: str, log: list[str]) -> None:
    argv = command(built.root, ["/bin/sh", "-c", text], workdir=built.workdir)
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment(built.env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    log += out.decode(errors="replace").splitlines()
    if process.returncode != 0:
        raise BuildError(f"the command {text!r} returned a non-zero code: {process.returncode}")
