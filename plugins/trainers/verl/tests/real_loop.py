"""Plays rows with verl's own workers and writes what they made of them, as JSON.

Run by the venv of ``make_venv.sh``. On standard input a list of runs: ``rows`` (a Parquet file), ``policy``
(``file.py:function``, or none for a broken engine), ``samples``, ``worker`` (``v0`` or ``v1``), ``overrides`` (of the
configuration), ``loop`` (keywords of the agent loop), ``tasks`` (rows at most).
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import verl  # type: ignore[import-not-found]
import verl.trainer.ppo.v1.agent_loop_tq as v1  # type: ignore[import-not-found]
import yaml  # type: ignore[import-untyped]
from agent_env.training.verl import CONFIG
from hydra import compose, initialize_config_dir  # type: ignore[import-not-found]
from tensordict import NonTensorStack, TensorDict  # type: ignore[import-not-found]
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker  # type: ignore[import-not-found]
from verl.protocol import DataProto  # type: ignore[import-not-found]
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parent))
from stub_server import StubServer, load_policy  # type: ignore[import-not-found]
from tiny_model import write_tiny_model  # type: ignore[import-not-found]

WorkerV1 = v1.AgentLoopWorkerTQ.__ray_metadata__.modified_class


class Queue:
    """In the place of the transfer queue, which needs a Ray cluster."""

    def __init__(self) -> None:
        self.samples: dict[str, Any] = {}
        self.status: dict[str, str] = {}

    async def async_kv_put(self, *, key: str, partition_id: str, tag: dict[str, Any]) -> None:
        """The state of a prompt's group."""
        self.status[key] = tag["status"]

    async def async_kv_batch_put(self, *, keys: Any, fields: Any, tags: Any, partition_id: str) -> None:
        """The samples of an episode."""
        for place, key in enumerate(keys):
            self.samples[key] = fields[place]


def config_of(orders: dict[str, Any], folder: Path) -> Any:
    """verl's own configuration, with the parts of the documentation."""
    loops = CONFIG
    if orders.get("loop"):
        loops = folder / "agent_loop.yaml"
        loops.write_text(yaml.safe_dump([yaml.safe_load(CONFIG.read_text())[0] | orders["loop"]]))
    overrides = [
        f"actor_rollout_ref.model.path={folder}",
        "actor_rollout_ref.rollout.name=vllm",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
        "data.max_prompt_length=16384",
        "data.max_response_length=16384",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        f"actor_rollout_ref.rollout.n={orders['samples']}",
        f"+data.cache_dir={folder}",
        *orders.get("overrides", ()),
    ]
    defaults = str(Path(str(verl.__file__)).parent / "trainer" / "config")
    with initialize_config_dir(config_dir=defaults, version_base=None):
        return compose("ppo_trainer", overrides=overrides)


async def play_v0(config: Any, server: Any, rows: list[Any], samples: int) -> dict[str, Any]:
    """With the worker that pads and stacks."""
    worker = AgentLoopWorker(config, server)
    batch = DataProto.from_single_dict(collate_fn([row for row in rows for _ in range(samples)]))
    made = await worker.generate_sequences(batch)
    found = []
    for place in range(len(made)):
        one = made[place]
        width = one.batch["responses"].shape[0]
        valid = one.batch["attention_mask"][-width:].bool()
        found.append(
            {
                "response": one.batch["responses"][valid].tolist(),
                "mask": one.batch["response_mask"][valid].tolist(),
                "logprobs": one.batch["rollout_log_probs"][valid].tolist(),
                "prompt": one.batch["prompts"][one.batch["attention_mask"][:-width].bool()].tolist(),
                "reward": float(one.batch["rm_scores"].sum()),
                "rewarded": one.batch["rm_scores"].nonzero().flatten().tolist(),
                "turns": int(one.non_tensor_batch["__num_turns__"]),
                "agentenv": one.non_tensor_batch["agentenv"],
                "info": one.non_tensor_batch["reward_extra_info"],
            }
        )
    return {"samples": found}


async def play_v1(config: Any, server: Any, rows: list[Any]) -> dict[str, Any]:
    """With the worker of the default trainer, as far as its queue."""
    queue = Queue()
    v1.tq.async_kv_put, v1.tq.async_kv_batch_put = queue.async_kv_put, queue.async_kv_batch_put
    v1.tq.init = lambda: None
    worker = WorkerV1(config, server)
    columns = collate_fn(rows)
    batch = TensorDict(
        {
            key: value if hasattr(value, "shape") and not isinstance(value, np.ndarray) else NonTensorStack(*value)
            for key, value in columns.items()
        },
        batch_size=len(rows),
    )
    batch["uid"] = NonTensorStack(*(f"row{place}" for place in range(len(rows))))
    batch["global_steps"] = NonTensorStack(*([3] * len(rows)))
    await worker.generate_sequences(batch)
    await asyncio.gather(*worker.background_tasks)
    found = []
    for key, one in sorted(queue.samples.items()):
        extra = one["extra_fields"]
        extra = getattr(extra, "data", extra)
        found.append(
            {
                "key": key,
                "response": one["responses"].tolist(),
                "mask": one["response_mask"].tolist(),
                "logprobs": one["rollout_log_probs"].tolist() if "rollout_log_probs" in set(one.keys()) else None,
                "prompt": one["prompts"].tolist(),
                "reward": float(one["rm_scores"].sum()),
                "rewarded": one["rm_scores"].nonzero().flatten().tolist(),
                "turns": int(one["num_turns"]),
                "agentenv": extra["agentenv"],
                "info": extra["reward_extra_info"],
                "steps": [extra["min_global_steps"], extra["max_global_steps"]],
            }
        )
    return {"samples": found, "status": queue.status}


async def main(orders: dict[str, Any], folder: Path) -> dict[str, Any]:
    tokenizer = write_tiny_model(folder)
    config = config_of(orders, folder)
    server = StubServer(tokenizer, load_policy(orders["policy"]) if orders.get("policy") else None)
    data = RLHFDataset([orders["rows"]], tokenizer, config.data)
    rows = [data[place] for place in range(len(data))][: orders.get("tasks")]
    made: dict[str, Any]
    try:
        if orders["worker"] == "v0":
            made = await play_v0(config, server, rows, orders["samples"])
        else:
            made = await play_v1(config, server, rows)
    except Exception as error:  # noqa: BLE001 - the test reads it
        made = {"error": [type(error).__name__, str(error)]}
    made["requests"] = server.requests
    made["texts"] = [tokenizer.decode(one["response"]) for one in made.get("samples", ())]
    return made


def each(orders: dict[str, Any]) -> dict[str, Any]:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="agentenv-verl-") as place:
        return asyncio.run(main(orders, Path(place)))


if __name__ == "__main__":
    answers = [each(orders) for orders in json.load(sys.stdin)]
    sys.stdout.write("\n" + json.dumps(answers, default=str) + "\n")
