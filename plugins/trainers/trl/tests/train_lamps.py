"""Trains a tiny model on the served bundle ``lamps`` with the real GRPOTrainer, and writes what came of it.

Run by the venv of ``make_venv.sh``: ``train_lamps.py URL OUT.json [--steps 55] [--seed 7]``. Everything random comes
from the seed, and one thread computes, so that two runs on one machine give the same curve.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from agent_env.training.trl import BundleSpec
from agent_env.training.trl.imports import third_party

torch, trl = map(third_party, ("torch", "trl"))
tiny, warm = map(third_party, ("tiny", "warm_start"))
GROUPS, ROLLOUTS = 4, 8


class Told:
    """The spec's reward function, which also writes down which lamp the model set first."""

    __name__ = "agentenv_reward"

    def __init__(self, reward: Any) -> None:
        self._reward = reward
        self.rollouts: list[dict[str, Any]] = []

    def __call__(self, completions: Any, task_id: Any, **others: Any) -> Any:
        rewards = self._reward(completions=completions, task_id=task_id, **others)
        for messages, task, reward in zip(completions, task_id, rewards, strict=True):
            calls = [call["function"] for call in messages[0].get("tool_calls") or ()]
            lamps: list[dict[str, str]] = [call["arguments"] for call in calls if call["name"] == "set_lamp"]
            self.rollouts.append(
                {"task": task.rpartition("/")[2], "reward": reward, "arguments": lamps[0] if lamps else {}}
            )
        return rewards


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=55)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    began = time.perf_counter()
    spec = BundleSpec(options.url)
    rows = list(spec.train_dataset)
    wishes = [warm.read_wish(row["prompt"][-1]["content"]) for row in rows]
    tokenizer = tiny.make_tokenizer(spec, [warm.call_of(wish.room, wish.wanted) for wish in wishes])
    model = tiny.make_model(tokenizer)
    curve, told = tiny.Curve(), Told(spec.reward_funcs)
    trainer = trl.GRPOTrainer(
        model=model,
        args=trl.GRPOConfig(
            output_dir=str(options.out.with_suffix("")),
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            num_generations=ROLLOUTS,
            per_device_train_batch_size=GROUPS * ROLLOUTS,
            num_generations_eval=4,
            per_device_eval_batch_size=100,
            max_completion_length=96,
            learning_rate=1e-3,
            warmup_steps=10,  # Adam's first steps are as long as its later ones, and can lose the form of a call
            min_p=0.02,  # the many tokens of a call, each a little unsure, else spoil a tenth of all calls by chance
            beta=0.0,
            max_steps=options.steps,
            seed=options.seed,
        ),
        processing_class=tokenizer,
        train_dataset=spec.train_dataset,
        eval_dataset=spec.eval_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=told,
        callbacks=[spec.callback, curve],
    )

    def evaluate() -> list[dict[str, Any]]:
        told.rollouts.clear()
        trainer.evaluate()
        return list(told.rollouts)

    ready = time.perf_counter()
    warm.warm_start(model, trainer, rows, options.seed)
    started = time.perf_counter()
    before = evaluate()
    evaluated = time.perf_counter()
    trainer.train()
    trained = time.perf_counter()
    after = evaluate()
    environments = [environment for pool in trainer._environment_pool.values() for environment in pool]
    report = {
        "seed": options.seed,
        "rewards": [log["reward"] for log in curve.logs],
        "held_out": {"before": before, "after": after},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": len(tokenizer),
        "batch": GROUPS * ROLLOUTS,
        "seconds": {
            "start": ready - began,
            "warm_start": started - ready,
            "evaluation": evaluated - started,
            "training": trained - evaluated,
        },
        "cpu_seconds": time.process_time(),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "open_after_training": sum(not environment._over() for environment in environments),
        "last_log": curve.logs[-1],
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
