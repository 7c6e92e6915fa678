"""Plays tasks with the real verifiers and writes what it recorded, as JSON.

Run by the venv of ``make_venv.sh``: ``real_run.py`` reads a list of orders on standard input, each with ``taskset`` and
``agent`` (configuration), ``model`` (address of a chat endpoint), ``tasks``, ``samples``, ``served`` (through
verifiers' environment server, as prime-rl does) and ``cancel_after`` (seconds). It writes one result for each.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import verifiers.v1 as vf  # type: ignore[import-not-found]
from agent_env.training.verifiers import live, toolserver
from verifiers.v1.serve.client import EnvClient  # type: ignore[import-not-found]
from verifiers.v1.serve.pool import env_config_data  # type: ignore[import-not-found]
from verifiers.v1.serve.server import EnvServer  # type: ignore[import-not-found]

TASKSET = "agentenv-trainer-verifiers"


async def main(orders: dict[str, Any]) -> dict[str, Any]:
    config = vf.resolve_env_config(
        {
            "taskset": {"id": TASKSET, **orders["taskset"]},
            "agent": orders.get("agent", {}),
            "retries": orders.get("retries", {}),
        }
    )
    client = vf.EvalClientConfig(base_url=orders["model"] + "/v1", api_key_var="NO_SUCH_KEY")
    env = vf.load_environment(config)
    tasks = list(env.taskset.skip(orders.get("skip", 0)).take(orders["tasks"]))
    play = _served if orders.get("served") else _in_process
    wanted = [task for task in tasks for _ in range(orders["samples"])]
    episodes = await play(config, env, client, wanted, orders.get("cancel_after"))
    for _ in range(400):  # what the ends of tasks began
        if not live._live and not toolserver._servers:  # noqa: SLF001
            break
        await asyncio.sleep(0.05)
    return {
        "episodes": episodes,
        "open": len(live._live),  # noqa: SLF001
        "servers": len(toolserver._servers),  # noqa: SLF001
        "torch": "torch" in sys.modules,
    }


async def _in_process(config: Any, env: Any, client: Any, tasks: list[Any], cancel_after: Any) -> list[Any]:
    context = vf.ModelContext(client=client, model="stand-in", sampling=vf.SamplingConfig())
    async with env.serving():
        slots = [slot for task in tasks for slot in env.slots(task)]
        runs = [asyncio.create_task(env.run_slot(slot, context)) for slot in slots]
        await asyncio.wait(runs, timeout=cancel_after)
        for run in runs:
            run.cancel()
        await asyncio.wait(runs)
    return [_words(run.result()) for run in runs if not run.cancelled()]


async def _served(config: Any, env: Any, client: Any, tasks: list[Any], cancel_after: Any) -> list[Any]:
    sent = vf.resolve_env_config(env_config_data(config))  # as a worker of its own process gets it
    server = EnvServer(sent, address="tcp://127.0.0.1:0")
    serving = asyncio.create_task(server.run())
    caller = EnvClient(server.address)
    try:
        await caller.wait_for_server_startup(30)
        runs = [
            caller.run(client, "stand-in", vf.SamplingConfig(), task.data.model_dump(mode="json")) for task in tasks
        ]
        running = [asyncio.create_task(run) for run in runs]
        await asyncio.wait(running, timeout=cancel_after)
        for run in running:
            run.cancel()
        await asyncio.wait(running)
        await caller.health()  # it hears of the cancellations before
        return [_words(run.result()) for run in running if not run.cancelled()]
    finally:
        await caller.close()
        serving.cancel()
        await asyncio.wait({serving})


def _words(episode: Any) -> dict[str, Any]:
    (trace,) = episode.traces
    return {
        "ok": episode.ok,
        "id": trace.task.data.id,
        "idx": trace.task.data.idx,
        "key": trace.task.key,
        "reward": trace.reward,
        "rewards": {name: None if reward is None else reward.score for name, reward in trace.rewards.items()},
        "metrics": dict(trace.metrics),
        "errors": [[error.type, error.message] for error in [*episode.errors, *trace.errors]],
        "stop": trace.stop_condition,
        "truncated": trace.is_truncated,
        "turns": trace.num_turns,
        "roles": [message.role for message in trace.messages],
        "calls": [call.name for message in trace.assistant_messages for call in message.tool_calls or ()],
        "tools": [tool.name for tool in trace.tools],
        "text": json.dumps(trace.model_dump(mode="json"), default=str),
    }


if __name__ == "__main__":
    print(json.dumps([asyncio.run(main(orders)) for orders in json.load(sys.stdin)]))
