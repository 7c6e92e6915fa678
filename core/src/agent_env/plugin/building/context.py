"""The build context of an env: its files, our core beside them, and a digest of all that."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import re
import shutil
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from agent_env.plugin.building import withcore
from agent_env.plugin.building.folder import digest_of, reading, requirements
from agent_env.plugin.building.ignore import files
from agent_env.plugin.sandboxing.corewheel import core_wheel

if TYPE_CHECKING:
    from pathlib import Path

_IN_MEMORY = 16 << 20


@dataclass(frozen=True, slots=True)
class Context:
    """What an image is built from.

    Attributes:
        folder: the env's folder.
        text: the Dockerfile with our additions.
        paths: the files, relative.
        with_core: whether our core goes in.
        digest: of everything that the image depends on, but its base.
        source: the Dockerfile as it is in the folder.
    """

    folder: Path
    text: str
    paths: tuple[str, ...]
    with_core: bool
    digest: str
    source: str

    @property
    def dockerfile(self) -> str:
        """The Dockerfile's path in the context."""
        return f"{withcore.FOLDER}/Dockerfile"

    @property
    def name(self) -> str:
        """A name for what is built: lower-case letters, digits and dashes, with the digest."""
        name = re.sub(r"[^a-z0-9]+", "-", self.folder.name.lower()).strip("-") or "env"
        return f"agentenv-{name[:24].rstrip('-')}-{self.digest[:24]}"

    def pack(self) -> IO[bytes]:
        """The context as a tar file, at its start."""
        target = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
        with tarfile.open(fileobj=target, mode="w") as tar:
            for path in self.paths:
                _add(tar, self.folder, path)
            _add_bytes(tar, self.dockerfile, self.text.encode())
            for path, data in _added().items() if self.with_core else ():
                _add_bytes(tar, path, data)
        target.seek(0)
        return target

    def stage(self, target: Path) -> Path:
        """Write the context into an empty folder; returns the Dockerfile's path there. Off the event loop, please."""
        for path in self.paths:
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.folder / path, place, follow_symlinks=False)
        added = {self.dockerfile: self.text.encode(), **(_added() if self.with_core else {})}
        for path, data in added.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(data)
        return target / self.dockerfile


def read(folder: Path, dockerfile: str, *, provider: str, extra: str = "", expands: bool = True) -> Context:
    """Look at an env's folder.

    Args:
        folder: the folder.
        dockerfile: the Dockerfile's name in it.
        provider: whose errors these are.
        extra: lines at the end of the Dockerfile.
        expands: whether the builder knows ``${NAME:+word}``.

    Raises:
        SandboxUnsupported: it has no Dockerfile; BuildFailed: a file of it cannot be read.
    """
    with reading(folder, dockerfile, provider=provider):
        source = text = (folder / dockerfile).read_text(encoding="utf-8")
        paths = tuple(files(folder))
        texts = [text, *requirements(folder, paths)]
        with_core = not any(withcore.names_foreign(one) for one in texts)
        if with_core:
            text = withcore.with_core(text, installs=any(withcore.names_core(one) for one in texts), expands=expands)
        text += f"\n{extra}" if extra else ""
        digest = digest_of(folder, paths, text, with_core=with_core)
    return Context(folder, text, paths, with_core, digest, source)


def _add(tar: tarfile.TarFile, folder: Path, path: str) -> None:
    """One file, without what differs from one checkout to the next."""
    info = tar.gettarinfo(str(folder / path), arcname=path)
    if not (info.isreg() or info.issym()):
        return
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o111 else 0o644
    if info.isreg():
        with (folder / path).open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _add_bytes(tar: tarfile.TarFile, path: str, data: bytes) -> None:
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


@functools.cache
def _added() -> dict[str, bytes]:
    """What our core adds to a context: the wheel, and its files with their byte code for this Python, so that an image
    with the same one need not compile them."""
    name, wheel = core_wheel()
    found = {
        f"{withcore.FOLDER}/wheels/{name}": wheel,
        f"{withcore.FOLDER}/wheels/constraints.txt": withcore.constraints(name).encode(),
    }
    with zipfile.ZipFile(io.BytesIO(wheel)) as package:
        for path in package.namelist():
            if not path.startswith("agent_env/"):
                continue
            source = found[f"{withcore.FOLDER}/core/{path}"] = package.read(path)
            if path.endswith(".py"):
                cached = importlib.util.cache_from_source(path)
                with contextlib.suppress(SyntaxError):  # the image says it, where somebody imports the file
                    found[f"{withcore.FOLDER}/core/{cached}"] = _compiled(source, path)
    return found


def _compiled(source: bytes, name: str) -> bytes:
    """Byte code that is believed without a look at the source's time."""
    import marshal

    code = compile(source, f"{withcore.INSIDE}/core/{name}", "exec", dont_inherit=True)
    unchecked = 0b01
    head = importlib.util.MAGIC_NUMBER + unchecked.to_bytes(4, "little") + importlib.util.source_hash(source)
    return head + marshal.dumps(code)
