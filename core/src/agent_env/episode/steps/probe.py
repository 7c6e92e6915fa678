"""The verifier of files and commands in a sandbox."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from agent_env.bundle.steps.criteria import BashSucceeds, DirExists, FileContains, FileExists, compiled
from agent_env.episode.matching import found
from agent_env.episode.rows import judged, record
from agent_env.errors import SandboxTimeout

if TYPE_CHECKING:
    from agent_env.bundle.steps.criteria import Criterion
    from agent_env.bundle.steps.verify import VerifySandbox
    from agent_env.episode.run import EpisodeRun
    from agent_env.plugin.sandbox import Sandbox

_TAIL = 200


async def run_verify_sandbox(step: VerifySandbox, episode: EpisodeRun) -> None:
    """Probe the sandbox. A probe that takes too long is a row that did not pass; a dead sandbox is a failure."""
    sandbox = (
        episode.sandbox(step.sandbox_name) if step.sandbox_name is not None else await episode.agent.sandbox(episode)
    )
    rows: list[dict[str, Any]] = []
    for criterion in step.criteria:
        timeout = episode.remaining(step.shell_timeout_seconds)
        try:
            passed, why = await _judge(sandbox, criterion, step.base_dir, timeout)
        except SandboxTimeout:
            passed, why = False, f"timed out after {timeout:g} s"
        rows.append(judged(criterion, passed, why))
    record(episode, step, rows)


async def _judge(sandbox: Sandbox, criterion: Criterion, base: str, timeout: float) -> tuple[bool, str]:
    match criterion:
        case FileExists(paths=paths):
            return await _exist(sandbox, paths, base, "-e", timeout)
        case DirExists(paths=paths):
            return await _exist(sandbox, paths, base, "-d", timeout)
        case FileContains(paths=paths):
            return await _contains(sandbox, posixpath.join(base, paths[0]), criterion.pattern, timeout)
        case BashSucceeds(bash_cmd=command):
            done = await sandbox.exec(["bash", "-c", command], cwd=base, timeout=timeout)
            return done.exit_code == 0, f"exit code {done.exit_code}; stderr: {done.stderr[-_TAIL:]}"
        case _:
            raise ValueError(f"verify_sandbox does not know the criterion {criterion!r}")


async def _exist(sandbox: Sandbox, paths: tuple[str, ...], base: str, flag: str, timeout: float) -> tuple[bool, str]:
    """Paths are given relative to ``/``, the working folder, which every provider maps to the sandbox's root."""
    missing: list[str] = []
    for path in paths:
        inside = "./" + posixpath.join(base, path).lstrip("/")
        done = await sandbox.exec(["test", flag, inside], cwd="/", timeout=timeout)
        if done.exit_code != 0:
            missing.append(path)
    return not missing, f"missing: {', '.join(missing)}" if missing else "all paths exist"


async def _contains(sandbox: Sandbox, path: str, pattern: str, timeout: float) -> tuple[bool, str]:
    try:
        text = (await sandbox.read(path)).decode(errors="replace")
    except (OSError, ValueError) as error:
        return False, f"cannot read {path}: {error or type(error).__name__}"
    matches = await found(compiled(pattern), text, timeout)
    return matches, f"{'contains' if matches else 'does not contain'} a match of {pattern!r}"
