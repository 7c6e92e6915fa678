"""The verifier that runs the tests of a project in a sandbox."""

from __future__ import annotations

import math
import posixpath
from typing import TYPE_CHECKING, Any

from agent_env.errors import CodeError, SandboxTimeout, SandboxUnsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.bundle.steps.unit_tests import RunContainerUnitTestsVerifier
    from agent_env.episode.run import EpisodeRun
    from agent_env.plugin.sandbox import ExecResult, Sandbox

_BASH_OR_SH = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
_CLEANING_S = 60.0
_MOST_REWARD_BYTES = 4096
_TAIL = 1000
_TIMED_OUT = frozenset({124, 137})
_NOT_RUN = frozenset({126, 127})


async def run_unit_tests(step: RunContainerUnitTestsVerifier, episode: EpisodeRun) -> None:
    """Run the tests and record the score.

    Only tests that ran can score: a command that took too long or could not be started, a setup that failed, a reward
    file that is missing or holds no number are errors of the verifier, never a score of 0.
    """
    sandbox = episode.sandbox(step.sandbox_name)
    _check_paths(step, sandbox)
    await _check_user(step, sandbox, episode.remaining(_CLEANING_S))
    for command in step.setup_commands or ():
        done = await _shell(step, sandbox, command, episode.remaining(step.timeout_sec))
        if done.exit_code != 0:
            raise CodeError(f"the setup command {command!r} ended with {_end(done)}")
    if step.reward_path is not None:
        await _remove(sandbox, step.reward_path, episode.remaining(_CLEANING_S))
    timeout = episode.remaining(step.timeout_sec)
    done = await _shell(step, sandbox, step.command, timeout)
    if done.exit_code in _TIMED_OUT:
        raise SandboxTimeout(f"{step.command!r} was ended: {_end(done)}", retryable=True)
    if step.reward_path is not None:
        score = await _reward(sandbox, step.reward_path, done)
    elif done.exit_code in _NOT_RUN:
        raise CodeError(f"the command {step.command!r} could not be run: {_end(done)}")
    else:
        score = float(done.exit_code == 0)
    row: dict[str, Any] = {"id": step.id, "result": score == 1.0, "score": score, "justification": _end(done)}
    episode.record_score(step.id, score, [row], name=step.verification)


def _check_paths(step: RunContainerUnitTestsVerifier, sandbox: Sandbox) -> None:
    """Without a root of its own, a sandbox's commands would write an absolute path of the host."""
    path = step.reward_path
    if path is not None and posixpath.isabs(path) and sandbox.isolation in {"none", "shared"}:
        raise SandboxUnsupported(
            f"reward_path {path!r} is absolute, and sandbox {step.sandbox_name!r} runs as plain processes of this "
            "machine, whose commands would write there; use a relative path, install bubblewrap, or choose a "
            "provider of containers"
        )


async def _check_user(step: RunContainerUnitTestsVerifier, sandbox: Sandbox, timeout: float) -> None:
    if step.user == "root":
        return
    done = await sandbox.exec(["sh", "-c", "id -u; id -un"], timeout=timeout)
    if step.user not in done.stdout.split():
        has = done.stdout.split()[-1] if done.stdout.split() else "unknown"
        raise SandboxUnsupported(
            f"user {step.user!r}: commands in sandbox {step.sandbox_name!r} run as {has!r}; set USER in its image"
        )


async def _shell(step: RunContainerUnitTestsVerifier, sandbox: Sandbox, command: str, timeout: float) -> ExecResult:
    try:
        return await sandbox.exec(["sh", "-c", _BASH_OR_SH, "sh", command], env=step.env_vars, timeout=timeout)
    except SandboxTimeout as error:
        raise SandboxTimeout(f"{command!r} ran longer than {timeout:g} s", retryable=True) from error


async def _remove(sandbox: Sandbox, path: str, timeout: float) -> None:
    """An absolute path is given relative to ``/``, the working folder, which is the sandbox's root everywhere."""
    argv: Sequence[str] = ["rm", "-rf", "--", "./" + path.lstrip("/")]
    done = await sandbox.exec(argv, cwd="/" if posixpath.isabs(path) else None, timeout=timeout)
    if done.exit_code != 0:
        raise CodeError(f"reward_path {path!r} could not be removed before the tests: {_end(done)}")


async def _reward(sandbox: Sandbox, path: str, done: ExecResult) -> float:
    try:
        text = (await sandbox.read(path, max_bytes=_MOST_REWARD_BYTES)).decode(errors="replace").strip()
    except (OSError, ValueError) as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({type(error).__name__})"
        raise CodeError(f"the reward file {path!r} {why} after the tests: {_end(done)}") from None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise CodeError(f"the reward file {path!r} holds {text[:80]!r}, which is no finite number")
    return max(0.0, min(1.0, value))


def _end(done: ExecResult) -> str:
    said = (done.stderr.strip() or done.stdout.strip())[-_TAIL:]
    return f"exit code {done.exit_code}" + (f"; last output:\n{said}" if said else "")
