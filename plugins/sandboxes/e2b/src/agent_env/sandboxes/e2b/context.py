"""The build context of an env: its files, what is added to them, and a digest of all that."""

from __future__ import annotations

import io
import os
import re
import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.building.folder import digest_of, reading, requirements
from agent_env.plugin.building.ignore import files
from agent_env.plugin.building.withcore import names_core, names_foreign
from agent_env.plugin.sandboxing.corewheel import core_wheel
from agent_env.sandboxes.e2b import dockerfile as dockerfiles
from agent_env.sandboxes.e2b.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

_LEFT_OUT = {".git", dockerfiles.FOLDER}


@dataclass(frozen=True, slots=True)
class Context:
    """What a template is built from.

    Attributes:
        folder: the env's folder.
        text: the template's Dockerfile.
        paths: the env's files, relative.
        script: sets the variables of the Dockerfile.
        core: whether our core goes in.
        wheel: whether the core's wheel goes in for pip.
        digest: of everything that the template depends on, but its base.
        command: argv of the server, or `None`.
        port: TCP port that the server insists on, or `None`.
        workdir: where it starts.
    """

    folder: Path
    text: str
    paths: tuple[str, ...]
    script: str
    core: bool
    wheel: bool
    digest: str
    command: tuple[str, ...] | None
    port: int | None
    workdir: str

    @property
    def name(self) -> str:
        """The template's name, without what depends on its size."""
        word = re.sub(r"[^a-z0-9]+", "-", self.folder.name.lower()).strip("-")[:40] or "env"
        return f"agentenv-{word}-{self.digest[:20]}"

    def stage(self, target: Path) -> None:
        """Write the whole context into an empty folder."""
        for path in self.paths:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / path, target / path, follow_symlinks=False)
            if not (target / path).is_symlink():
                (target / path).chmod(0o755 if (self.folder / path).stat().st_mode & 0o111 else 0o644)
        added = target / dockerfiles.FOLDER
        added.mkdir(exist_ok=True)
        (added / "env.sh").write_text(self.script, encoding="utf-8")
        if self.core or self.wheel:
            name, data = core_wheel()
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                package.extractall(added / "core", [n for n in package.namelist() if n.startswith("agent_env/")])
            if self.wheel:
                (added / "wheels").mkdir()
                (added / "wheels" / name).write_bytes(data)
                line = f"agentenv-core @ file://{dockerfiles.INSIDE}/wheels/{name}\n"
                (added / "wheels" / "constraints.txt").write_text(line, encoding="utf-8")
        for base, _, names in os.walk(added):
            os.chmod(base, 0o755)  # noqa: PTH101, S103
            for name in names:
                os.chmod(os.path.join(base, name), 0o644)  # noqa: PTH101, PTH118
        ignore = target / ".dockerignore"
        kept = ignore.read_text(encoding="utf-8", errors="replace") if ignore.is_file() else ""
        ignore.write_text(f"{kept}\n!{dockerfiles.FOLDER}\n!{dockerfiles.FOLDER}/**\n", encoding="utf-8")


def read(folder: Path, dockerfile: str, provider: str) -> Context:
    """Look at an env's folder.

    Raises:
        SandboxUnsupported: it has no Dockerfile, or one that these services do not build;
        BuildFailed: a file of it cannot be read.
    """
    settings = read_settings(folder, provider)
    with reading(folder, dockerfile, provider=provider, product="template"):
        found = dockerfiles.parse((folder / dockerfile).read_text(encoding="utf-8"))
        paths = tuple(path for path in files(folder) if _LEFT_OUT.isdisjoint(path.split("/")))
        own = "\n".join(line for one in found.instructions for line in one.lines)
        texts = [own, *requirements(folder, paths)]
        core = not any(names_foreign(one) for one in texts)
        wheel = core and any(names_core(one) for one in texts)
        _check(found, folder, provider)
        text = dockerfiles.for_template(found, core=core, wheel=core_wheel()[0] if wheel else None)
        script = dockerfiles.variables(found)
        if core:
            script += f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{dockerfiles.INSIDE}/core"\n'
        digest = digest_of(folder, paths, f"{text}\0{script}", with_core=core)
    command = settings.command or found.command
    return Context(folder, text, paths, script, core, wheel, digest, command, settings.port, found.workdir)


def _check(found: dockerfiles.Dockerfile, folder: Path, provider: str) -> None:
    if found.stages > 1:
        raise SandboxUnsupported(
            f"env {folder.name!r}: its Dockerfile has {found.stages} stages; templates are built from one. Copy what "
            "the earlier stages make into the env's folder, or push the built image and name that",
            provider=provider,
        )
    if found.stages == 0:
        raise BuildFailed(f"env {folder.name!r}: its Dockerfile has no FROM", provider=provider)
