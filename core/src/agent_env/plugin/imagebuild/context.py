"""The build context of an env: its files, our core beside them, and a digest of all that."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.corewheel import core_wheel
from agent_env.plugin.imagebuild import dockerfile as dockerfiles
from agent_env.plugin.imagebuild.ignore import files

if TYPE_CHECKING:
    from pathlib import Path

_REQUIREMENTS = re.compile(r"(.*/)?[^/]*requirements[^/]*\.(txt|in)|(.*/)?pyproject\.toml", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Context:
    """What an image is built from.

    Attributes:
        folder: the env's folder.
        text: the Dockerfile with our additions.
        paths: the files, relative, without what ``.dockerignore`` leaves out.
        with_core: whether our core goes in.
        digest: of everything that the image depends on, but its base.
    """

    folder: Path
    text: str
    paths: tuple[str, ...]
    with_core: bool
    digest: str

    @property
    def slug(self) -> str:
        """The folder's name in letters, digits and dashes."""
        return re.sub(r"[^a-z0-9]+", "-", self.folder.name.lower()).strip("-")[:40] or "env"

    def stage(self, target: Path) -> Path:
        """Write the context into the empty folder ``target``; returns the path of its Dockerfile."""
        for path in self.paths:
            source, copy = self.folder / path, target / path
            if not (source.is_symlink() or source.is_file()):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy, follow_symlinks=False)
            if not copy.is_symlink():
                copy.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)
        if self.with_core:
            _stage_core(target / dockerfiles.FOLDER)
        dockerfile = target / dockerfiles.STAGED
        dockerfile.write_text(self.text, encoding="utf-8")
        return dockerfile


def read(folder: Path, dockerfile: str, *, provider: str) -> Context:
    """Look at an env's folder.

    Raises:
        SandboxUnsupported: it has no Dockerfile; BuildFailed: a file of it cannot be read.
    """
    try:
        text = (folder / dockerfile).read_text(encoding="utf-8")
        paths = tuple(files(folder))
        listed = [path for path in paths if _REQUIREMENTS.fullmatch(path)]
        texts = [text, *((folder / path).read_text(encoding="utf-8", errors="replace") for path in listed)]
        with_core = not any(dockerfiles.names_foreign(one) for one in texts)
        if with_core:
            text = dockerfiles.with_core(text, installs=any(dockerfiles.names_core(one) for one in texts))
        return Context(folder, text, paths, with_core, _digest(folder, text, paths, with_core=with_core))
    except FileNotFoundError as error:
        if not (folder / dockerfile).exists():
            raise SandboxUnsupported(
                f"env {folder.name!r} has no {dockerfile}, from which the {provider} sandbox builds its image; write "
                'one (FROM python:3.11-slim, WORKDIR /app, COPY . ., CMD ["python", "server.py"])',
                provider=provider,
            ) from error
        raise _unreadable(folder, error, provider) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(folder, error, provider) from error


def _unreadable(folder: Path, error: Exception, provider: str) -> BuildFailed:
    return BuildFailed(f"env {folder.name!r}: its build context cannot be read: {error}", provider=provider)


def _digest(folder: Path, text: str, paths: tuple[str, ...], *, with_core: bool) -> str:
    state = hashlib.sha256(text.encode())
    for path in paths:
        full = folder / path
        mode = full.lstat().st_mode
        state.update(f"\0{path}\0{mode & 0o111}\0".encode())
        if stat.S_ISLNK(mode):
            state.update(os.fsencode(full.readlink()))
        elif stat.S_ISREG(mode):
            with full.open("rb") as file:
                state.update(hashlib.file_digest(file, "sha256").digest())
    if with_core:
        state.update(core_wheel()[1])
    return state.hexdigest()


def _stage_core(target: Path) -> None:
    """The core's files and their byte code for this Python: an image with the same one need not compile them."""
    name, wheel = core_wheel()
    wheels = target / "wheels"
    wheels.mkdir(parents=True)
    (wheels / name).write_bytes(wheel)
    (wheels / "constraints.txt").write_text(dockerfiles.constraints(name), encoding="utf-8")
    core = target / "core"
    with zipfile.ZipFile(wheels / name) as package:
        members = [member for member in package.namelist() if member.startswith("agent_env/")]
        package.extractall(core, members)
    for member in members:
        if member.endswith(".py"):
            cached = core / importlib.util.cache_from_source(member)
            cached.parent.mkdir(exist_ok=True)
            cached.write_bytes(_compiled((core / member).read_bytes(), member))


def _compiled(source: bytes, name: str) -> bytes:
    """Byte code that is believed without a look at the source's time."""
    import marshal

    code = compile(source, f"{dockerfiles.INSIDE}/core/{name}", "exec", dont_inherit=True)
    unchecked = 0b01
    head = importlib.util.MAGIC_NUMBER + unchecked.to_bytes(4, "little") + importlib.util.source_hash(source)
    return head + marshal.dumps(code)
