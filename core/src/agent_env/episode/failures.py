"""From exceptions to the failure of an episode: which kind, which words, and whether a fresh one may do better."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agent_env.episode.scoring import BadRows
from agent_env.errors import (
    AgentEnvError,
    BuildFailed,
    BundleError,
    CodeError,
    EnvError,
    EnvRequestError,
    EnvTimeout,
    EpisodeFailed,
    Failure,
    FailureKind,
    PluginError,
    SandboxError,
    SandboxGone,
    SandboxTimeout,
    UsageError,
)

if TYPE_CHECKING:
    from agent_env.episode.run import EpisodeRun
    from agent_env.episode.running import RunningEnv
    from agent_env.plugin.step import StepModel

log = logging.getLogger("agent_env.episode")

DEPLOYS = frozenset({"deploy_env", "deploy_sandbox", "deploy_agent"})
"""Step types whose failure always ends the episode: playing on without the env would score its absence."""

_IN_SANDBOXES = frozenset({"verify_sandbox", "run_container_unit_tests_verifier"})
"""Verifiers that work in the episode's own sandbox: its end is not theirs."""

_LOG_TAIL = 2000
_LONGEST = 4000
_LOOK_AGAIN = 0.02


async def explain(error: Exception, step: StepModel, run: EpisodeRun) -> tuple[Failure, bool]:
    """Why the episode failed when ``step`` raised ``error``, and whether it failed however forgiving the step is.

    Only what happens to an env by its own doing can be forgiven: an env that is not there, or a turn that did not
    open, would end as a score of the model.
    """
    if isinstance(error, EpisodeFailed):
        return error.failure, True
    where = f"step {step.id!r}"
    if step.type in DEPLOYS:
        return _deploy(error, where), True
    if (gone := await _dead_env(run, _death_notice(error))) is not None:
        env, why = gone
        return Failure("env", f"{env.title} {why}; {where} failed: {_text(error)}", retryable=True), True
    return _of_step(error, step, where), step.fail_task_on_error or step.scores or step.prompts


def _of_step(error: Exception, step: StepModel, where: str) -> Failure:
    if step.scores:
        if step.type in _IN_SANDBOXES and isinstance(error, SandboxGone):
            return Failure("env", f"{where}: {_text(error)}", retryable=True)
        return _verifier(error, where)
    if isinstance(error, AgentEnvError):
        return Failure("env", f"{where}: {_text(error)}", retryable=_retryable(error))
    return internal(error, where)


async def explain_call(error: EnvError | SandboxError, env: RunningEnv | None, what: str) -> Failure:
    """Why the episode failed when a tool call raised."""
    said = _text(error)
    if isinstance(error, EnvTimeout):
        return Failure("tool_timeout", _joined(what, said), retryable=True)
    why = await _why_gone(env, _death_notice(error)) if env is not None else None
    if why is not None and env is not None:
        return Failure("env", f"{_joined(what, said)}; {env.title} {why}", retryable=True)
    return Failure("env", _joined(what, said), retryable=_retryable(error))


def _joined(what: str, said: str) -> str:
    """The words of an error after what was done, without the env's name twice."""
    owner = what.partition(":")[0]
    return said if said.startswith(owner) else f"{what}: {said}"


def internal(error: BaseException, where: str) -> Failure:
    """A failure that no part of AgentEnv foresaw; its traceback goes to the log."""
    log.error("%s failed unexpectedly", where, exc_info=error)
    return Failure("server", f"{where} failed with an internal {type(error).__name__}: {error}")


def late(step: StepModel | None, what: str, timeout: float) -> Failure:
    """The failure of a ``what`` (reset, end of a turn) that took longer than ``timeout`` seconds.

    Without a step that still runs it is the reward that everybody waits for.
    """
    if step is None:
        return Failure("no_reward", f"the reward was not there when the {what} had taken {timeout:g} s")
    message = f"step {step.id!r} ({step.type}) still ran when the {what} had taken {timeout:g} s"
    kind: FailureKind = "verifier" if step.scores else "deploy" if step.type in DEPLOYS else "env"
    return Failure(kind, message, retryable=kind != "verifier")


def _death_notice(error: Exception) -> float:
    """Seconds within which an env that died of this would be known to be dead: connections end before processes do."""
    match error:
        case EnvTimeout() | EnvRequestError() | BadRows():
            return 0.0
        case EnvError() | SandboxError():
            return 1.0
        case _:
            return 0.25


async def _dead_env(run: EpisodeRun, notice: float) -> tuple[RunningEnv, str] | None:
    """An env of the episode that ended by itself, and how."""
    found = await asyncio.gather(*(_why_gone(env, notice) for env in run.envs))
    return next(((env, why) for env, why in zip(run.envs, found, strict=True) if why is not None), None)


async def _why_gone(env: RunningEnv, notice: float) -> str | None:
    until = asyncio.get_running_loop().time() + notice
    try:
        async with asyncio.timeout(5 + notice):
            while True:
                why = await env.deployed.why_gone()
                if why is not None or asyncio.get_running_loop().time() >= until:
                    return why
                await asyncio.sleep(_LOOK_AGAIN)
    except Exception as error:  # noqa: BLE001
        log.debug("%s: its state cannot be asked: %s", env.title, error)
        return None


def _deploy(error: Exception, where: str) -> Failure:
    if isinstance(error, AgentEnvError):
        return Failure("deploy", f"{where}: {_text(error)}", retryable=_retryable(error))
    failure = internal(error, where)
    return Failure("deploy", failure.message)


def _verifier(error: Exception, where: str) -> Failure:
    if isinstance(error, SandboxTimeout):
        return Failure("verifier", f"{where}: the verifier took too long: {error}", retryable=True)
    if isinstance(error, (AgentEnvError, BadRows)):
        return Failure("verifier", f"{where}: {_text(error)}", retryable=_retryable(error))
    failure = internal(error, where)
    return Failure("verifier", failure.message)


def _retryable(error: Exception) -> bool:
    match error:
        case SandboxError() | EnvRequestError():
            return error.retryable
        case EnvTimeout():
            return True
        case CodeError() | PluginError() | UsageError() | BundleError():
            return False
        case _:
            return False


def _text(error: Exception) -> str:
    text = (str(error) or type(error).__name__)[:_LONGEST]
    tail = ""
    if isinstance(error, BuildFailed):
        tail = error.log
    elif isinstance(error, SandboxGone):
        if error.exit_code is not None and str(error.exit_code) not in text:
            text += f" (exit code {error.exit_code})"
        tail = error.log_tail
    tail = tail.strip()[-_LOG_TAIL:]
    if tail and tail not in text:
        text += f"; last output:\n{tail}"
    return text
