"""An env's folder as something is built from it: what it installs, a digest, and the errors of reading it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.sandboxing.corewheel import core_wheel

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

_REQUIREMENTS = re.compile(r"(.*/)?[^/]*requirements[^/]*\.(txt|in)|(.*/)?pyproject\.toml", re.IGNORECASE)


def requirements(folder: Path, paths: Sequence[str]) -> list[str]:
    """The texts of the files among ``paths`` that list what is installed."""
    listed = [path for path in paths if _REQUIREMENTS.fullmatch(path)]
    return [(folder / path).read_text(encoding="utf-8", errors="replace") for path in listed]


def digest_of(folder: Path, paths: Sequence[str], text: str, *, with_core: bool) -> str:
    """Of the files, of their being programs, of what is said beside them, and of our core where it goes in."""
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


@contextmanager
def reading(folder: Path, dockerfile: str, *, provider: str, product: str = "image") -> Generator[None]:
    """Say what goes wrong while the folder is read as what it is for the user.

    Args:
        folder: the env's.
        dockerfile: the Dockerfile's name in it.
        provider: whose errors these are.
        product: what the provider makes of a Dockerfile.

    Raises:
        SandboxUnsupported: it has no Dockerfile; BuildFailed: a file of it cannot be read.
    """
    try:
        yield
    except FileNotFoundError as error:
        if not (folder / dockerfile).exists():
            raise SandboxUnsupported(
                f"env {folder.name!r} has no {dockerfile}, from which the {provider} sandbox builds its {product}; "
                'write one (FROM python:3.11-slim, WORKDIR /app, COPY . ., CMD ["python", "server.py"])',
                provider=provider,
            ) from error
        raise _unreadable(folder, error, provider) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(folder, error, provider) from error


def _unreadable(folder: Path, error: Exception, provider: str) -> BuildFailed:
    return BuildFailed(f"env {folder.name!r}: its build context cannot be read: {error}", provider=provider)
