"""The rollout loop of TRL's async trainer over our sessions; only the sampling of a reply is scripted.

Run by the venv of ``make_venv.sh``: ``real_async.py URL`` prints the rollouts as the trainer would queue them.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from functools import partial
from typing import Any

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1")

from agent_env.testing.small import WORD
from agent_env.training.trl import BundleSessionFactory
from agent_env.training.trl.imports import third_party

harness = third_party("openenv.core.harness")
llm = third_party("openenv.core.llm_client")
loops = third_party("trl.experimental.async_grpo.openenv_harness")
TurnRecord = third_party("trl.experimental.async_grpo.async_rollout_worker").TurnRecord
PROMPT = [{"role": "user", "content": "Which word is in room find-1?"}]
ROLLOUTS: dict[str, list[tuple[str, str | None]]] = {
    "found": [("", "look"), (WORD, None)],
    "ended": [(WORD, "end_turn")],
    "wrong": [("no idea", None)],
    "died": [("", "die"), (WORD, None)],
}


def loop_for(factory: Any) -> Any:
    """The worker's loop without the parts that need a vLLM server."""
    loop = object.__new__(loops._HarnessRolloutLoop)
    loop._adapter = harness.MCPHarnessAdapter()
    loop._factory = factory()
    loop._limits = harness.HarnessRunLimits(max_turns=4)
    loop._stop_event = threading.Event()
    loop._live_sessions = set()
    loop._rollout_reward_fn = None
    loop._fork_threshold_tokens = 0
    return loop


def sample(replies: list[tuple[str, str | None]]) -> Any:
    """Replies as if the model had sampled them, one token for each message so far."""
    left = list(replies)

    def step(turns: list[Any], times: list[Any], messages: list[Any], tools: list[Any], sampling: Any) -> Any:
        del sampling
        assert [tool.name for tool in tools] == ["look", "die", "end_turn"]
        text, name = left.pop(0)
        calls = [llm.ToolCall(id="c", name=name, args={"response": text} if name == "end_turn" else {})] if name else []
        ids = list(range(len(messages)))
        turns.append(TurnRecord(ids, [len(messages)], [-0.5]))
        times.append((0.0, 0.0, [call.name for call in calls]))
        return harness.ModelStepResult(response=llm.LLMResponse(content=text, tool_calls=calls))

    return step


def main(url: str) -> None:
    """Play every scripted rollout, and one that finds no episode."""
    third_party("accelerate").PartialState(cpu=True)  # TRL's logging asks for it
    factory = pickle.loads(pickle.dumps(partial(BundleSessionFactory, url, "train", tool_timeout=10)))
    report: dict[str, Any] = {}
    for name, replies in ROLLOUTS.items():
        loop = loop_for(factory)
        loop._sample_turn = sample(replies)
        (messages, ids, sequences, calls, failures, reward), metrics = loop._run_session(PROMPT, group_id=5)
        report[name] = {
            "reward": reward,
            "calls": calls,
            "failures": failures,
            "messages": [message["role"] for message in messages],
            "tokens": len(ids),
            "sequences": len(sequences),
            "turns": metrics["turns"],
            "live": len(loop._live_sessions),
        }
    nowhere = loop_for(partial(BundleSessionFactory, "http://127.0.0.1:9", "train", reset_timeout=0.5))
    empty, metrics = nowhere._run_session({"split": "train", "index": 0}, group_id=0)
    report["nowhere"] = [empty[-1], metrics]
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
