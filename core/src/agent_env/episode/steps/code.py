"""Scripts of the bundle that run between other steps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.episode.code_in_sandbox import run_in_sandbox
from agent_env.episode.steps.outcome import RUNNER
from agent_env.errors import UsageError
from agent_env.plugin.sandbox import CodeRequest

if TYPE_CHECKING:
    from agent_env.bundle import Artifact
    from agent_env.bundle.steps.load import RunCode
    from agent_env.episode.run import EpisodeRun

DEFAULT_TIMEOUT = 600.0
ENTRY = "run.py"
MAX_SCRIPT_BYTES = 5 * 1024 * 1024


async def run_run_code(step: RunCode, episode: EpisodeRun) -> None:
    """Run the script and keep its value under ``result_id``.

    With ``env_id`` it runs in a child process in the env's Python, with ``sandbox_name`` or ``agent_name`` in that
    sandbox, else in a child process of its own.
    """
    services = episode.services
    artifact = services.bundle.artifact(step.script_artifact_id)
    value: dict[str, Any] = {"args": {} if step.args is None else step.args, "results": dict(episode.results)}
    request = CodeRequest(
        folder=artifact.path,
        file=entry(artifact, step.script_file),
        function=step.entrypoint,
        args=(value,),
        runner=RUNNER,
        timeout=episode.remaining(step.timeout_seconds or DEFAULT_TIMEOUT),
    )
    if step.env_id is not None:
        env = episode.running_env(step.env_id)
        async with env.deployed.mcp_url() as url:
            value["env"] = {"id": env.spec.id, "url": url.rpartition("/")[0], "mcp_url": url}
            result = await services.deployer.run_code(env.spec, request, provider=env.provider)
    elif step.sandbox_name is not None or step.agent_name is not None:
        named = step.sandbox_name
        sandbox = episode.sandbox(named) if named is not None else await episode.agent.sandbox(episode)
        result = await run_in_sandbox(sandbox, request, await asyncio.to_thread(scripts, artifact))
    else:
        result = await services.deployer.run_code(None, request)
    episode.results[step.result_id or step.id] = result


def scripts(artifact: Artifact) -> dict[str, bytes]:
    """The ``.py`` files of an artifact by their path in it.

    Raises:
        UsageError: they are too large.
    """
    files = [path for path in artifact.files if path.suffix == ".py"]
    if sum(path.stat().st_size for path in files) > MAX_SCRIPT_BYTES:
        raise UsageError(f"artifact {artifact.name!r}: its .py files are larger than {MAX_SCRIPT_BYTES >> 20} MiB")
    return {path.relative_to(artifact.path).as_posix(): path.read_bytes() for path in files}


def entry(artifact: Artifact, script_file: str | None) -> str:
    """The file that defines the entry point: the named one, the only one, or ``run.py``.

    Raises:
        UsageError: there is none, or several could be meant.
    """
    names = [path.relative_to(artifact.path).as_posix() for path in artifact.files if path.suffix == ".py"]
    where = f"artifact {artifact.name!r}"
    if script_file is not None:
        if script_file not in names:
            raise UsageError(f"{where} has no file {script_file!r}; its .py files: {', '.join(names) or 'none'}")
        return script_file
    named = [name for name in names if name.rpartition("/")[2] == ENTRY]
    for found in (names, named):
        if len(found) == 1:
            return found[0]
    if not names:
        raise UsageError(f"{where} has no .py file")
    raise UsageError(
        f"{where} has several .py files and not one {ENTRY!r}: set script_file to one of {', '.join(names)}"
    )
