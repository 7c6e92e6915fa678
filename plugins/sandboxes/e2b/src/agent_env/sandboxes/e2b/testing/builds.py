"""Templates of the stand-in: their steps are really done, as far as one user without a network can."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_env.sandboxes.e2b.testing.machine import ENV, enclosed, new_root, setenv

_RUN_S = 120.0
_INSTALLERS = ("apt-get ", "apk ")


@dataclass
class Template:
    """A template and its latest build."""

    id: str
    name: str
    root: Path
    cpu: int
    memory_mb: int
    build_id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: str = "waiting"
    logs: list[str] = field(default_factory=list[str])
    reason: str | None = None
    workdir: str = ""
    user: str = "root"
    builds: int = 0


class Failed(Exception):
    """A step failed."""


def build(template: Template, request: dict[str, Any], uploads: dict[str, bytes]) -> None:
    """Do the steps; the outcome is in the template. Runs in a thread."""
    template.builds += 1
    try:
        shutil.rmtree(template.root, ignore_errors=True)
        template.root.mkdir(parents=True)
        new_root(template.root)
        env = dict(ENV)
        for step in request["steps"]:
            _step(template, step, uploads, env)
        template.status = "ready"
    except (Failed, OSError, KeyError, tarfile.TarError) as error:
        template.reason = str(error) or type(error).__name__
        template.status = "error"


def _step(template: Template, step: dict[str, Any], uploads: dict[str, bytes], env: dict[str, str]) -> None:
    kind, args = step["type"], list(step.get("args") or [])
    template.logs.append(f"{kind} {' '.join(args)[:200]}")
    if kind == "WORKDIR":
        place = args[0] if args[0].startswith("/") else f"{template.workdir.rstrip('/')}/{args[0]}"
        template.workdir = place
        (template.root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif kind == "USER":
        template.user = args[0]
    elif kind == "ENV":
        # As with the service, this is for the build alone.
        env.update(zip(args[::2], args[1::2], strict=True))
    elif kind == "COPY":
        _copy(template, args, uploads[step["filesHash"]])
    elif kind == "RUN":
        _run(template, args[0], env)
    else:
        raise Failed(f"unknown step {kind}")


def _run(template: Template, command: str, env: dict[str, str]) -> None:
    if command.startswith(_INSTALLERS):
        template.logs.append("the stand-in installs nothing")
        return
    argv = [*enclosed(template.root), *setenv(env), "--chdir", template.workdir or "/", "bash", "-c", command]
    done = subprocess.run(argv, check=False, capture_output=True, timeout=_RUN_S, stdin=subprocess.DEVNULL)
    output = (done.stdout + done.stderr).decode(errors="replace")
    template.logs += output.splitlines()[-100:]
    if done.returncode != 0:
        raise Failed(f"command {command[:200]!r} ended with exit code {done.returncode}: {output[-500:]}")


def _copy(template: Template, args: list[str], packed: bytes) -> None:
    source, target = args[0], args[1]
    into = target.endswith(("/", "/.")) or target == "."
    place = target if target.startswith("/") else f"{template.workdir.rstrip('/')}/{target}"
    where = template.root / os.path.normpath(place).lstrip("/")
    base = os.path.normpath(source)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = [member for member in tar if not member.isdir()]
        for member in members:
            name = os.path.normpath(member.name)
            pattern = any(char in source for char in "*?[")
            alone = name == base or (len(members) == 1 and pattern)
            relative = Path(name).name if alone or pattern else os.path.relpath(name, "." if base == "." else base)
            goal = where / relative if into or not alone or where.is_dir() else where
            goal.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                goal.symlink_to(member.linkname)
                continue
            file = tar.extractfile(member)
            if file is not None:
                goal.write_bytes(file.read())
                goal.chmod(member.mode & 0o777)
