"""Images: Dockerfile commands played into root file systems, each built once."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_env.plugin.building.dockerfile import instructions
from agent_env.sandboxes.modal.standin import rootfs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What needs a network or changes the machine; the rest of RUN is run.
_SKIPPED = re.compile(r"\b(pip|uv|apt|apt-get|useradd|adduser|groupadd|curl|wget)\b")


@dataclass(slots=True)
class BuiltImage:
    """An image, built or failed.

    Attributes:
        id: its id.
        root: its files.
        workdir: its work folder.
        env: its variables.
        cmd: its CMD.
        entrypoint: its ENTRYPOINT.
        log: what its build wrote.
        failed: why the build failed, ``""`` = it did not.
    """

    id: str
    root: Path
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict[str, str])
    cmd: list[str] = field(default_factory=list[str])
    entrypoint: list[str] = field(default_factory=list[str])
    log: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file of the build context."""

    path: str
    data: bytes
    mode: int


class Builder:
    """All images of a stand-in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.images: dict[str, BuiltImage] = {}
        self.builds = 0

    @staticmethod
    def id_of(commands: Sequence[str], bases: Mapping[str, str], context: str) -> str:
        """The id of an image by what it is made of."""
        made_of = json.dumps([list(commands), dict(bases), context]).encode()
        return f"im-{hashlib.sha256(made_of).hexdigest()[:22]}"

    def build(
        self, image_id: str, commands: Sequence[str], bases: Mapping[str, str], context: Sequence[ContextFile]
    ) -> BuiltImage:
        """Play the commands. Runs off the event loop."""
        self.builds += 1
        root = self._folder / f"{image_id}-{time.monotonic_ns()}"
        image = BuiltImage(image_id, root)
        try:
            for word, rest in instructions("\n".join(commands)):
                self._play(image, word, rest, bases, context)
        except (OSError, ValueError) as error:
            image.failed = str(error)
        if not image.failed and not root.exists():
            image.failed = "no FROM"
        self.images[image_id] = image
        return image

    def _play(
        self, image: BuiltImage, word: str, rest: str, bases: Mapping[str, str], context: Sequence[ContextFile]
    ) -> None:
        image.log += f"{word} {rest}\n"
        if word == "FROM":
            self._start(image, bases.get(rest.split(maxsplit=1)[0], ""))
        elif word == "WORKDIR":
            image.workdir = str(PurePosixPath(image.workdir) / rest)
            _inside(image.root, image.workdir).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            pairs = [item.partition("=") for item in shlex.split(rest)]
            image.env.update({name: value for name, sign, value in pairs if sign})
        elif word in {"CMD", "ENTRYPOINT"}:
            argv: list[str] = json.loads(rest) if rest.startswith("[") else ["/bin/sh", "-c", rest]
            if word == "CMD":
                image.cmd = argv
            else:
                image.entrypoint = argv
        elif word == "COPY":
            _copy(image, [item for item in shlex.split(rest) if not item.startswith("--")], context)
        elif word == "RUN" and not _SKIPPED.search(rest):
            argv = rootfs.command(image.root, ["/bin/sh", "-c", rest], cwd=image.workdir, network=False)
            env = {"PATH": rootfs.PATH, **image.env}
            done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
            image.log += done.stdout + done.stderr
            if done.returncode != 0:
                raise ValueError(f"RUN {rest} ended with exit code {done.returncode}")

    def _start(self, image: BuiltImage, base_id: str) -> None:
        if not base_id:
            rootfs.make(image.root)
            return
        base = self.images[base_id]
        if base.failed:
            raise ValueError(base.failed)
        copy_root(base.root, image.root)
        copied = replace(base, id=image.id, root=image.root, log=image.log)
        for name in ("workdir", "env", "cmd", "entrypoint"):
            setattr(image, name, getattr(copied, name).copy() if name != "workdir" else copied.workdir)


def copy_root(source: Path, target: Path) -> None:
    """Copy a root file system."""
    shutil.copytree(source, target, symlinks=True)


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _copy(image: BuiltImage, words: list[str], context: Sequence[ContextFile]) -> None:
    *sources, target = words
    place = str(PurePosixPath(image.workdir) / target)
    for source in sources:
        wanted = source.strip("/").removeprefix("./").rstrip(".").rstrip("/")
        copied = 0
        for file in context:
            path = file.path.lstrip("/")
            if not wanted:
                rest = path
            elif path.startswith(f"{wanted}/"):
                rest = path.removeprefix(f"{wanted}/")
            elif fnmatch.fnmatchcase(path, wanted):
                rest = path.rpartition("/")[2] if target.endswith("/") or target == "." or len(sources) > 1 else ""
            else:
                continue
            full = _inside(image.root, f"{place.rstrip('/')}/{rest}" if rest else place)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(file.data)
            full.chmod(file.mode & 0o777 or 0o644)
            copied += 1
        if not copied:
            raise ValueError(f"COPY {source}: nothing in the build context matches")
