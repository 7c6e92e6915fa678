"""A build without uploads: the files travel as text inside the build's commands.

Self-hosted servers take no files for a build; a command is text, and text they take.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
import tarfile
from typing import TYPE_CHECKING, cast

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.building.ignore import Ignore
from agent_env.sandboxes.e2b import dockerfile as dockerfiles

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK = 64 * 1024
_PACK = f"{dockerfiles.INSIDE}/pack"
_MOST = 16 << 20


def without_copies(text: str, folder: Path, title: str, provider: str) -> str:
    """The Dockerfile with every COPY and ADD as commands.

    Raises:
        SandboxUnsupported: a form of COPY that cannot be one, or too many files.
    """
    lines: list[str] = []
    user = workdir = ""
    for one in dockerfiles.parse(text).instructions:
        if one.name == "USER":
            user = one.text
        if one.name == "WORKDIR":
            workdir = one.text
        if one.name in {"COPY", "ADD"}:
            lines += [
                "USER root",
                *_copy(one.text, folder, workdir, title, provider),
                *([f"USER {user}"] if user else []),
            ]
        else:
            lines += one.lines
        if one.name == "FROM":
            lines += ["USER root", *_unpack(folder, title, provider)]
    return "\n".join([*lines, ""])


def _unpack(folder: Path, title: str, provider: str) -> list[str]:
    data = base64.b64encode(_pack(folder)).decode()
    if len(data) > _MOST:
        raise SandboxUnsupported(
            f"{title}: its files are {len(data) >> 20} MiB when packed, more than the {_MOST >> 20} MiB that fit into "
            "a build's commands; leave some out with a .dockerignore, or put them into an image and name that",
            provider=provider,
        )
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    return [
        f"RUN mkdir -p {_PACK}",
        *(f"RUN printf %s {chunk} >> {_PACK}.b64" for chunk in chunks),
        f"RUN base64 -d {_PACK}.b64 | tar -x -z -f - -C {_PACK} && rm -f {_PACK}.b64",
    ]


def _pack(folder: Path) -> bytes:
    ignored = Ignore((folder / ".dockerignore").read_text(encoding="utf-8"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_dir() and not path.is_symlink():
                continue
            if not ignored(name):
                tar.add(path, arcname=name, recursive=False, filter=_anonymous)
    return buffer.getvalue()


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _copy(text: str, folder: Path, workdir: str, title: str, provider: str) -> list[str]:
    flags, words = _split(text)
    if "<<" in text or any(not flag.startswith(("--chown=", "--chmod=")) for flag in flags) or len(words) < 2:
        raise SandboxUnsupported(
            f"{title}: `COPY {text}` cannot be built on a server that takes no uploads; plain COPY with --chown and "
            "--chmod can",
            provider=provider,
        )
    *sources, target = words
    as_folder = target.endswith("/") or len(sources) > 1 or target == "."
    place = target if target.startswith("/") else f"{workdir.rstrip('/') or ''}/{target}"
    commands = [f"cd {_PACK}"]
    quoted = shlex.quote(place)
    for source in sources:
        name = source.lstrip("/").removeprefix("./") or "."
        if any(char in name for char in "*?["):
            commands.append(f"mkdir -p {quoted} && cp -R {name} {quoted}")
        elif (folder / name).is_dir():
            commands.append(f"mkdir -p {quoted} && cp -R {shlex.quote(name)}/. {quoted}")
        elif as_folder:
            commands.append(f"mkdir -p {quoted} && cp {shlex.quote(name)} {quoted}")
        else:
            commands.append(f'mkdir -p "$(dirname {quoted})" && cp {shlex.quote(name)} {quoted}')
    for flag in flags:
        tool = "chown" if flag.startswith("--chown=") else "chmod"
        commands.append(f"{tool} -R {shlex.quote(flag.partition('=')[2])} {quoted}")
    return [f"RUN {' && '.join(commands)}"]


def _split(text: str) -> tuple[list[str], list[str]]:
    words = text.split()
    flags: list[str] = []
    while words and words[0].startswith("--"):
        flags.append(words.pop(0))
    try:
        listed: object = json.loads(" ".join(words))
    except ValueError:
        return flags, words
    return flags, [str(word) for word in cast("list[object]", listed)] if isinstance(listed, list) else words
