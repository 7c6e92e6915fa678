"""The step that brings artifacts and files into envs and sandboxes."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import posixpath
from typing import TYPE_CHECKING, Any

from agent_env.episode.downloads import download
from agent_env.errors import EnvError, EnvUnsupported, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agent_env.bundle import Artifact
    from agent_env.bundle.steps.load import LoadArtifact, Url
    from agent_env.episode.run import EpisodeRun
    from agent_env.episode.running import RunningEnv
    from agent_env.plugin.sandbox import Sandbox

LOADED = "/loaded"
STAGED_ENVIRONMENT = "/app/files"


async def run_load_artifact(step: LoadArtifact, episode: EpisodeRun) -> None:
    """Load the artifacts and URLs into every target that the step names."""
    artifacts = [episode.services.bundle.artifact(name) for name in step.artifact_names]
    env_name = step.env_step_id or step.env_id
    if env_name is not None:
        await _into_env(episode.running_env(env_name), artifacts, step.urls or ())
    sandboxes: list[Sandbox] = []
    if step.sandbox_name is not None:
        sandboxes.append(episode.sandbox(step.sandbox_name))
    if step.agent_name is not None:
        sandboxes.append(await episode.agent.sandbox(episode))
    for sandbox in sandboxes:
        await _into_sandbox(sandbox, artifacts, step.urls or (), step.destination_path)
    episode.stale = True


async def _into_env(env: RunningEnv, artifacts: Sequence[Artifact], urls: Sequence[Url]) -> None:
    """``data/reset``, then ``data/add`` with one file part for each artifact and URL."""
    parts = [await asyncio.to_thread(_file_part, artifact) for artifact in artifacts]
    for url, name in zip(urls, file_names(urls), strict=True):
        parts.append({"kind": "file", "file": {"uri": url.url, **_mime(name), "name": name}})
    handle = env.deployed.handle
    try:
        await handle.data_reset()
    except EnvUnsupported:
        pass  # a fresh env has nothing to reset
    except EnvError as error:
        raise env.named(error, "data/reset") from error
    for part in parts:
        try:
            await handle.data_add([part])
        except EnvError as error:
            raise env.named(error, "data/add") from error


def _file_part(artifact: Artifact) -> dict[str, Any]:
    path = artifact.file or (artifact.files[0] if len(artifact.files) == 1 else None)
    if path is None:
        raise UsageError(f"artifact {artifact.name!r} has {len(artifact.files)} files; an env is loaded with one file")
    data = base64.b64encode(path.read_bytes()).decode()
    return {"kind": "file", "file": {"bytes": data, **_mime(path.name), "name": path.name}}


def _mime(name: str) -> dict[str, str]:
    guessed = mimetypes.guess_type(name)[0]
    return {"mimeType": guessed} if guessed is not None else {}


async def _into_sandbox(
    sandbox: Sandbox, artifacts: Sequence[Artifact], urls: Sequence[Url], destination: str | None
) -> None:
    for artifact in artifacts:
        base = destination or (STAGED_ENVIRONMENT if artifact.type == "environment" else LOADED)
        if artifact.file is not None:
            await sandbox.upload(artifact.file, posixpath.join(base, artifact.file.name))
            continue
        await _upload_files(sandbox, artifact, base)
    for url, name in zip(urls, file_names(urls), strict=True):
        async with download(url.url) as local:
            await sandbox.upload(local, posixpath.join(destination or LOADED, name))


async def _upload_files(sandbox: Sandbox, artifact: Artifact, base: str) -> None:
    """The artifact's folder where all of it is content, else file by file (``artifact.toml`` stays behind)."""
    if not await asyncio.to_thread(_has_manifest, artifact.path):
        await sandbox.upload(artifact.path, base)
        return
    for path in artifact.files:
        await sandbox.upload(path, posixpath.join(base, path.relative_to(artifact.path).as_posix()))


def _has_manifest(folder: Path) -> bool:
    return (folder / "artifact.toml").exists()


def file_names(urls: Sequence[Url]) -> list[str]:
    """The name of each file: the last segment of the URL's path, repeats get ``-1``, ``-2``."""
    from urllib.parse import unquote, urlsplit

    names: list[str] = []
    for url in urls:
        name = url.filename or posixpath.basename(unquote(urlsplit(url.url).path)) or "download"
        stem, suffix = posixpath.splitext(name)
        count = 0
        while name in names:
            count += 1
            name = f"{stem}-{count}{suffix}"
        names.append(name)
    return names
