"""A rehearsal: the environment is stepped with text that a Python function's message is written as."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import AgentEnvError, EpisodeFailed, Failure
from agent_env.plugin.trainer import RehearsalSample
from agent_env.rollout.rehearsal import play_groups, read_written_rows
from agent_env.rollout.result import Result
from agent_env.training.skyrl.rows import SkyrlRow
from agent_env.training.skyrl.textenv import TextEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.rehearsal import Emit

_MARK = {"agentenv_raw": 0}


async def play(plan: RehearsalPlan, emit: Emit) -> None:
    """Play every group of the plan."""
    rows = await read_written_rows(plan, SkyrlRow(plan.url, plan.rows))
    await play_groups(plan, rows, lambda row: play_sample(row, plan.reply), emit, kept=_kept)


def _kept(samples: Sequence[RehearsalSample]) -> bool:
    return all(sample.failure is None for sample in samples)  # one failed rollout masks its group


async def play_sample(row: Mapping[str, Any], reply: Callable[..., dict[str, Any]]) -> RehearsalSample:
    """Play one episode of ``row``; a failed one is a sample with a failure."""
    began = time.perf_counter()
    env = TextEnv(extras=row, native_tools=True)
    parser = env.parser
    tokens = 0
    failure: Failure | None = None
    try:
        await env.ainit(row["prompt"])
        while not env.over:
            text = await _ask(env, parser, reply)
            tokens += len(text.encode("utf-8", "replace")) + 1
            await env.astep(text)
    except EpisodeFailed as error:
        failure = error.failure
    finally:
        await env.aclose()
    result = env.result or Result()
    failure = result.failure or failure
    return RehearsalSample(
        task_id=str(row["task_id"]),
        reward=None if failure is not None else result.reward,
        scores=dict(result.scores),
        tool_calls=result.tool_calls,
        invalid_calls=result.invalid_calls,
        failure=failure,
        turns=result.turns,
        trained_tokens=0 if failure is not None else tokens,
        seconds=time.perf_counter() - began,
        timings=dict(result.timings),
        warnings=tuple(result.warnings),
        transcript=list(result.messages),
    )


async def _ask(env: TextEnv, parser: ToolCallParser, reply: Callable[..., dict[str, Any]]) -> str:
    from agent_env.testing.standin.replies import engine_message

    result = env.result
    assert result is not None
    # A copy: what a policy does to its arguments must not change the conversation.
    messages, tools = json.loads(json.dumps([result.messages, list(env.row.tools)]))
    try:
        return write_reply(engine_message(await asyncio.to_thread(reply, messages, tools)), parser)
    except AgentEnvError:
        raise
    except Exception as error:
        raise EpisodeFailed(Failure("model", f"{type(error).__name__}: {error}")) from error


def write_reply(message: Mapping[str, Any], parser: ToolCallParser) -> str:
    """The text that a model would have written for ``message``.

    Arguments that are no JSON object are written as they are.

    Raises:
        EpisodeFailed: the parser's format cannot hold the calls.
    """
    parts = [str(message["content"])] if message.get("content") else []
    for call in cast("list[dict[str, Any]]", message.get("tool_calls") or []):
        name, raw = str(call["function"]["name"]), str(call["function"]["arguments"])
        try:
            arguments: object = json.loads(raw)
        except ValueError:
            arguments = None
        whole = isinstance(arguments, dict)
        text = parser.render([{"name": name, "arguments": arguments if whole else _MARK}])
        if text is not None and not whole:
            mark = json.dumps(_MARK)
            text = text.replace(mark, raw) if mark in text else None
        if text is None:
            raise EpisodeFailed(
                Failure("model", f"the parser {parser.name!r} cannot write the stand-in's call of {name!r}")
            )
        parts.append(text)
    return "\n".join(parts)
