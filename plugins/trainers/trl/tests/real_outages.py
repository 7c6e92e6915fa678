"""The real GRPOTrainer on ``lamps`` with envs and verifiers that break at random; what the model says is scripted.

Run by the venv of ``make_venv.sh``: ``real_outages.py URL FOLDER LIMIT`` prints a report. ``LIMIT`` is the most
episodes that the server lets be open: when it gives all of them at the end, the training has left none.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(0, str(Path(__file__).parent))

from agent_env.training.trl import BundleSpec
from agent_env.training.trl.imports import third_party

torch, trl, tiny, warm = map(third_party, ("torch", "trl", "tiny", "warm_start"))
STEPS, BATCH, GROUP = 8, 16, 8
COLOURS = ("red", "orange", "yellow", "green", "blue", "violet")
END = '<tool_call>\n{"name": "end_turn", "arguments": {"response": "done"}}\n</tool_call><|im_end|>'
DONE = "Done.<|im_end|>"


class Script:
    """The replies of a batch: what earns 1, what earns 0.5, and what earns 1 and then calls behind the end."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._open: list[list[str]] = []

    def __call__(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
        """In place of the trainer's generation; it asks those again whose last reply was a call."""
        texts: list[str] = [self._tokenizer.decode(ids) for ids in prompt_ids]
        if "<tool_response>" not in texts[0]:
            prompts = [text.partition("<|im_start|>user\n")[2].partition("<|im_end|>")[0] for text in texts]
            self._open = [_replies(at, prompt) for at, prompt in enumerate(prompts)]
        assert len(texts) == len(self._open)
        said = [replies.pop(0) for replies in self._open]
        self._open = [replies for replies in self._open if replies]
        return [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in said], None


def _replies(at: int, prompt: str) -> list[str]:
    wish = warm.read_wish(prompt)
    place = COLOURS.index(wish.wanted)
    far = next(COLOURS[(place + by) % 6] for by in (2, 3) if COLOURS[(place + by) % 6] != wish.now)
    right, half = warm.call_of(wish.room, wish.wanted), warm.call_of(wish.room, far)
    return ([right, DONE], [half, DONE], [right, END, right, DONE])[at % 3]


def main(url: str, folder: Path, limit: int) -> None:
    """Train, then take every episode that the server has, and print the report."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    spec = BundleSpec(url, tool_timeout=10, reset_timeout=30)
    tokenizer = tiny.make_tokenizer(spec)
    curve, batches = tiny.Curve(), list[dict[str, Any]]()

    def reward(completions: Any, **others: Any) -> Any:
        rewards = spec.reward_funcs(completions=completions, **others)
        tools = [[message["content"] for message in told if message["role"] == "tool"] for told in completions]
        failures = [environment._result().failure for environment in others["environments"]]
        kinds = ["" if failure is None else failure.kind for failure in failures]
        batches.append({"rewards": rewards, "tools": tools, "kinds": kinds})
        return rewards

    trainer = trl.GRPOTrainer(
        model=tiny.make_model(tokenizer),
        args=trl.GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            num_generations=GROUP,
            per_device_train_batch_size=BATCH,
            max_completion_length=400,
            max_steps=STEPS,
        ),
        processing_class=tokenizer,
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=reward,
        callbacks=[spec.callback, curve],
    )
    whole = trainer._generate_and_score_completions

    def advantages(inputs: Any) -> Any:
        output = whole(inputs)
        batches[-1]["advantages"] = output["advantages"].tolist()
        return output

    trainer._generate_single_turn = Script(tokenizer)
    trainer._generate_and_score_completions = advantages
    trainer.train()
    report = {
        "batches": batches,
        "logged": [{"reward": log["reward"], "failed": log["agentenv/failed"]} for log in curve.logs],
        "losses_finite": all(math.isfinite(log["grad_norm"]) for log in curve.logs if "grad_norm" in log),
        "weights_finite": all(bool(torch.isfinite(values).all()) for values in trainer.model.parameters()),
        "free_at_the_end": _free(url, limit),
    }
    print(json.dumps(report))  # noqa: T201


def _free(url: str, limit: int) -> int:
    """How many episodes of the held-out tasks, whose envs do not break, the server has, up to ``limit``."""
    spec = BundleSpec(url, reset_timeout=20)
    environments = [spec.environment_factory() for _ in range(limit)]
    for environment in environments:
        environment.reset(**spec.rows("eval")[0])
    answers = [environment.set_lamp(room="hall", colour="violet") for environment in environments]
    spec.close()
    return answers.count("set")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
