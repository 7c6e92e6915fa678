"""A rehearsal: the loop of NeMo Gym's simple agent over the real service, with a Python function as the model."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.trainer import RehearsalSample
from agent_env.rollout.markup import find_markup
from agent_env.rollout.rehearsal import play_groups, read_written_rows
from agent_env.training.nemo_gym.rows import NemoGymRow
from agent_env.training.nemo_gym.service import Service
from agent_env.training.nemo_gym.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.rehearsal import Emit

    Row = dict[str, Any]


async def play(plan: RehearsalPlan, emit: Emit) -> None:
    """Play every group of the plan."""
    rows = await read_written_rows(plan, NemoGymRow(plan.rows))
    settings = ServerSettings(plan.url, plan.rows.token_var, most_failures=max(1, 2 * len(rows) * plan.samples))
    async with Service(settings) as service:
        await play_groups(plan, rows, lambda row: _Rollout(plan, service, row).play(), emit, kept=_kept)


def _kept(samples: Sequence[RehearsalSample]) -> bool:
    scored = sum(sample.failure is None for sample in samples)
    return scored > 1 or scored == len(samples)  # NeMo RL leaves masked samples out of the group's baseline


class _Rollout:
    """One run of the agent."""

    def __init__(self, plan: RehearsalPlan, service: Service, row: Row) -> None:
        self._plan = plan
        self._service = service
        self._row = row
        params = row["responses_create_params"]
        self._tools = [{"type": "function", "function": _function(tool)} for tool in params["tools"]]
        self._messages: list[dict[str, Any]] = list(params["input"])
        self._output: list[dict[str, Any]] = []
        self._warnings: list[str] = []
        self._tokens = 0
        self._turns = 0

    async def play(self) -> RehearsalSample:
        """Seed, play and verify."""
        began = time.perf_counter()
        session_id = await self._service.seed(self._row)
        while self._turns < self._plan.rows.max_turns:
            calls = await self._ask()
            for call in calls:
                await self._call(session_id, call)
            if not calls:
                break
        answer = await self._service.verify(session_id, {**self._row, "response": {"output": self._output}})
        result = self._service.result(session_id)
        masked = "mask_sample" in answer.get("instance_config", {})
        return RehearsalSample(
            task_id=str(self._row["agentenv"]["task_id"]),
            reward=None if masked else float(answer["reward"]),
            scores=dict(result.scores),
            tool_calls=result.tool_calls,
            invalid_calls=result.invalid_calls,
            failure=result.failure,
            turns=self._turns,
            trained_tokens=0 if masked else self._tokens,
            seconds=time.perf_counter() - began,
            timings=dict(result.timings),
            warnings=tuple(self._warnings),
            transcript=self._messages,
        )

    async def _ask(self) -> list[dict[str, Any]]:
        """One reply of the model; returns its calls."""
        from agent_env.testing.standin.replies import engine_message
        from agent_env.testing.standin.tokens import completion_tokens

        reply = await asyncio.to_thread(self._plan.reply, list(self._messages), self._tools)
        message = engine_message(reply)
        self._turns += 1
        self._messages.append(message)
        self._tokens += len(completion_tokens(message))
        calls = cast("list[dict[str, Any]]", message["tool_calls"] or [])
        content = str(message["content"])
        if content or not calls:
            text = {"type": "output_text", "text": content, "annotations": list[Any]()}
            self._output.append({"type": "message", "role": "assistant", "content": [text]})
        if not calls and (markup := find_markup(content)) is not None:
            self._warnings.append(f"the reply holds the call markup {markup.found!r} that was not parsed as a call")
        for call in calls:
            self._output.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        return calls

    async def _call(self, session_id: str, call: Mapping[str, Any]) -> None:
        name, arguments = str(call["function"]["name"]), str(call["function"]["arguments"])
        try:
            json.loads(arguments)
        except (ValueError, RecursionError) as error:  # the agent answers this itself
            text = json.dumps({"error": f"Invalid tool call arguments: {error!r}"})
        else:
            text = await self._service.call(session_id, name, arguments.encode("utf-8", "replace"))
        self._output.append({"type": "function_call_output", "call_id": call["id"], "output": text})
        self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "parameters")}
