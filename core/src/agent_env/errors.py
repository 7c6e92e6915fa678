"""The exceptions of AgentEnv, one tree.

A message names the thing, says what was expected and how to mend it. Nothing here imports anything heavy: the
client side of a trainer loads this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FailureKind = Literal[
    "deploy",  # an env or sandbox could not be started
    "env",  # a running env broke its protocol, died or lost its connection
    "tool_timeout",  # a tool call took longer than its deadline
    "verifier",  # verifier code crashed, hung or returned nonsense
    "no_reward",  # the scores do not make a reward
    "server",  # the bundle's server refused, restarted or could not be reached
    "model_timeout",  # the model's reply took longer than its deadline
    "model",  # the chat endpoint failed after its retries
    "aborted",  # the trainer, the user or the engine gave the episode up
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode has no score. An environment's failure is never a reward.

    Attributes:
        kind: one of `FailureKind`.
        message: names the env or step and says what happened; it never holds a secret.
        retryable: whether a fresh episode of the same task may well succeed.
    """

    kind: FailureKind
    message: str
    retryable: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class AgentEnvError(Exception):
    """Any error of AgentEnv. The command line prints its message without a traceback."""


class UsageError(AgentEnvError):
    """The user asked for something that cannot be done; the message says what can."""


# -- plugins ----------------------------------------------------------------------------------------------------------


class PluginError(AgentEnvError):
    """A plugin could not be found, loaded or used."""


class UnknownName(PluginError):
    """No plugin provides this name."""


class NameClash(PluginError):
    """Two distributions provide one name."""


class PluginLoadError(PluginError):
    """A plugin was found but did not load, or returned nonsense."""


# -- bundles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a bundle.

    Attributes:
        path: the file, relative to the bundle's folder.
        message: what is wrong and how to mend it.
        step: id of the task step, where there is one.
        line: line of the file, counted from 1, where it is known.
        task: name of the task that cannot be played because of it; `None` when the whole bundle is unreadable.
    """

    path: Path
    message: str
    step: str | None = None
    line: int | None = None
    task: str | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line is not None else str(self.path)
        step = f" step {self.step!r}:" if self.step is not None else ""
        return f"{where}:{step} {self.message}"


class BundleError(AgentEnvError):
    """A bundle cannot be read; `problems` holds all of them, not only the first."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        lines = [message, *(f"  {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))


# -- sandboxes --------------------------------------------------------------------------------------------------------


class SandboxError(AgentEnvError):
    """A sandbox provider failed.

    Attributes:
        retryable: whether the same request may succeed later.
        provider: name of the provider, or `None`.
        sandbox_id: the provider's id of the sandbox, or `None` when there is none yet.
    """

    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        retryable: bool | None = None,
        provider: str | None = None,
        sandbox_id: str | None = None,
    ) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable
        self.provider = provider
        self.sandbox_id = sandbox_id


class SandboxNotFound(SandboxError):
    """No sandbox has this id."""


class SandboxGone(SandboxError):
    """The sandbox ended: `exit_code` and `log_tail` say how, where they are known."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        log_tail: str = "",
        retryable: bool | None = None,
        provider: str | None = None,
        sandbox_id: str | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable, provider=provider, sandbox_id=sandbox_id)
        self.exit_code = exit_code
        self.log_tail = log_tail


class SandboxNotReady(SandboxGone):
    """The server inside did not answer its health path in time, or ended before it did."""


class CreateFailed(SandboxError):
    """The provider refused or failed to create the sandbox."""


class BuildFailed(SandboxError):
    """The image or Python environment could not be built; `log` is the end of the build's output."""

    def __init__(self, message: str, *, log: str = "", provider: str | None = None) -> None:
        super().__init__(message, provider=provider)
        self.log = log


class RateLimited(SandboxError):
    """Too many requests; `retry_after` in seconds where the provider says it."""

    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None, provider: str | None = None) -> None:
        super().__init__(message, provider=provider)
        self.retry_after = retry_after


class QuotaExceeded(SandboxError):
    """The account's quota is used up."""

    retryable = True


class SandboxAuthFailed(SandboxError):
    """The provider did not accept the credentials."""


class SandboxTimeout(SandboxError):
    """The provider did not answer in time."""

    retryable = True


class SandboxUnavailable(SandboxError):
    """The provider cannot be reached or is broken for now."""

    retryable = True


class SandboxUnsupported(SandboxError):
    """The provider cannot do what was asked; it is refused rather than approximated."""


class CodeError(AgentEnvError):
    """Python code of a bundle (a verifier or a script) raised, crashed or answered nonsense."""


# -- envs and episodes ------------------------------------------------------------------------------------------------


class EnvError(AgentEnvError):
    """An env cannot be reached, died or broke its protocol: never the model's fault."""


class EnvTimeout(EnvError):
    """An env did not answer within the deadline of the call."""


class EnvUnsupported(EnvError):
    """The env's card does not offer what was asked for: an extension, a data operation, or the env has no card."""


class EnvRequestError(EnvError):
    """An env answered an AgentEnv protocol request with an error.

    Attributes:
        code: the error's code as the env sent it, or `None`.
        applied: `"yes"`, `"no"` or `"unknown"`: whether the request took effect.
        retryable: as the env said.
    """

    def __init__(
        self, message: str, *, code: str | int | None = None, applied: str = "unknown", retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.applied = applied
        self.retryable = retryable


class EpisodeFailed(AgentEnvError):
    """An episode ended without a score; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class RewardError(AgentEnvError):
    """A reward spec is wrong, or the scores of an episode do not make a finite reward."""

    def __init__(self, message: str, problems: Iterable[str] = ()) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__("\n".join([message, *(f"  {problem}" for problem in self.problems)]))


# -- the client of a bundle's server ----------------------------------------------------------------------------------


class ServerError(AgentEnvError):
    """A bundle's server refused a request; `code` is the wire's error code, `retryable` whether to try again."""

    def __init__(self, message: str, *, code: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable


class CapacityReached(ServerError):
    """The server plays as many episodes as it may."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="CAPACITY_REACHED", retryable=True)


class ServerAuthError(ServerError):
    """The server did not accept the token."""


class SessionLost(ServerError):
    """The connection of a session ended: its episode is gone. A client never continues on a fresh one in silence."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="SESSION_LOST", retryable=True)
