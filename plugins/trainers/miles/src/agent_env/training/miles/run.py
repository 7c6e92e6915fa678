"""`agent.run`: from Miles' arguments to a rollout and back to a dict."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import AgentEnvError, Failure, UsageError
from agent_env.rollout.chat import ChatModel
from agent_env.rollout.loop import Rollout
from agent_env.rollout.result import Result, result_dict
from agent_env.rollout.session import connect
from agent_env.rollout.supervise import Supervisor
from agent_env.training.miles.recorded import RecordedTurns
from agent_env.training.miles.row import read_row

if TYPE_CHECKING:
    from agent_env.rollout.model import Model
    from agent_env.rollout.row import EpisodeRow
    from agent_env.rollout.session import Connect

_log = logging.getLogger(__name__)
_supervisor = Supervisor()
_said: set[str] = set()


async def run_rollout(
    base_url: str, prompt: Any, request_kwargs: Any, metadata: Any, *, connect: Connect = connect
) -> dict[str, Any]:
    """See `agent_env.training.miles.agent.run`."""
    return result_dict(await play(base_url, prompt, request_kwargs, metadata, connect=connect))


async def play(base_url: str, prompt: Any, request_kwargs: Any, metadata: Any, *, connect: Connect = connect) -> Result:
    """As `run_rollout`, with the whole result."""
    try:
        row = read_row(metadata)
        request = cast("dict[str, Any]", request_kwargs) if isinstance(request_kwargs, dict) else {}
        turns = RecordedTurns(base_url)
        async with ChatModel(base_url, request=request, timeout=row.model_timeout, recover=turns.recover) as model:
            result = await _supervisor.play(_rollout(row, prompt, turns.counting(model), connect))
    except AgentEnvError as error:
        result = _failed(Failure("server", str(error)))
    except Exception as error:  # noqa: BLE001  the trainer loses a whole group by an exception
        _log.exception("a rollout failed in AgentEnv itself")
        result = _failed(Failure("aborted", f"{type(error).__name__}: {error}"))
    else:
        _report(row, result)
    return result


async def abort_rollouts(message: str) -> int:
    """End the rollouts under way; returns how many."""
    return await _supervisor.abort(message)


def _rollout(row: EpisodeRow, prompt: Any, model: Model, connect: Connect) -> Rollout:
    return Rollout(
        row.target,
        _messages(prompt),
        row.tools,
        model,
        row.settings(),
        parser=row.load_parser(),
        connect=connect,
    )


def _messages(prompt: object) -> list[dict[str, Any]]:
    if isinstance(prompt, list):
        messages = cast("list[object]", prompt)
        if messages and all(isinstance(message, dict) for message in messages):
            return cast("list[dict[str, Any]]", messages)
    if isinstance(prompt, str):
        raise UsageError(
            "the prompt is a text, not the row's list of messages: leave --apply-chat-template off and pass "
            "--input-key messages"
        )
    raise UsageError("the prompt must be the row's list of messages: pass --input-key messages")


def _failed(failure: Failure) -> Result:
    result = Result()
    result.fail(failure)
    return result


def _report(row: EpisodeRow, result: Result) -> None:
    """Say in the log what a user has to know; what is wrong with the set-up only once."""
    if result.failure is not None:
        _log.warning("rollout of %s (%s, %d) failed: %s", row.task_id, row.split, row.index, result.failure)
    for warning in result.warnings:
        kind = warning[:80]
        if kind not in _said and len(_said) < 100:
            _said.add(kind)
            _log.warning("rollout of %s: %s", row.task_id, warning)
