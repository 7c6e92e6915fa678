"""Two steps of the real GRPOTrainer with scripted replies: one of four envs dies, then all do.

Run by the venv of ``make_venv.sh``: ``real_failures.py FOLDER`` prints what the trainer made of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(0, str(Path(__file__).parent))

from agent_env.testing.small import WORD, serve_in_process, small_bundle
from agent_env.training.trl import BundleSpec
from agent_env.training.trl.imports import third_party

if TYPE_CHECKING:
    from collections.abc import Generator

torch, trl, tiny = map(third_party, ("torch", "trl", "tiny"))
DIE = '<tool_call>\n{"name": "die", "arguments": {}}\n</tool_call>'
SCRIPTS = [[WORD, DIE, "no idea", WORD], ["well"], [DIE] * 4, ["well"] * 4]


@contextmanager
def served(bundle: Path) -> Generator[tuple[str, Any]]:
    """The bundle's server, in a thread of its own."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def serve() -> None:
        async with serve_in_process(bundle) as server:
            found.extend((server, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()
            await server.quiet()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(60)
    try:
        yield found[0].url, found[0].deployer
    finally:
        found[1].call_soon_threadsafe(stop.set)
        thread.join(30)


def script(trainer: Any, seen: list[dict[str, Any]]) -> None:
    """Let the model say what it is told; everything after a reply is TRL's own, and ``seen`` what came of it."""
    left = [list(texts) for texts in SCRIPTS]
    score, whole = trainer._calculate_rewards, trainer._generate_and_score_completions

    def generate(prompt_ids: list[Any], *_: Any, **__: Any) -> Any:
        texts = left.pop(0)
        assert len(texts) == len(prompt_ids)
        return [trainer.processing_class(f"{text}<|im_end|>")["input_ids"] for text in texts], None

    def rewards(*arguments: Any) -> Any:
        found = score(*arguments)
        seen.append({"rewards": [None if math.isnan(value) else value for value in found[:, 0].tolist()]})
        return found

    def advantages(inputs: Any) -> Any:
        output = whole(inputs)
        seen[-1]["advantages"] = output["advantages"].tolist()
        return output

    trainer._generate_single_turn = generate
    trainer._calculate_rewards = rewards
    trainer._generate_and_score_completions = advantages


def main(folder: Path) -> None:
    """Train two steps and print the report."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with served(small_bundle(folder / "small", tasks=1)) as (url, deployer):
        spec = BundleSpec(url, tool_timeout=10, reset_timeout=30)
        tokenizer = tiny.make_tokenizer(spec)
        curve = tiny.Curve()
        seen: list[dict[str, Any]] = []
        trainer = trl.GRPOTrainer(
            model=tiny.make_model(tokenizer),
            args=trl.GRPOConfig(
                output_dir=str(folder / "out"),
                use_cpu=True,
                bf16=False,
                report_to="none",
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
                num_generations=4,
                per_device_train_batch_size=4,
                max_completion_length=200,
                max_steps=2,
            ),
            processing_class=tokenizer,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
            callbacks=[spec.callback, curve],
        )
        script(trainer, seen)
        trainer.train()
        some, every = seen
        some |= {"reward": curve.logs[0]["reward"], "failed": curve.logs[0]["agentenv/failed"]}
        finite = all(bool(torch.isfinite(parameter).all()) for parameter in trainer.model.parameters())
        deadline = time.monotonic() + 20
        while (left_open := sum(not env.closed for env in deployer.deployed)) and time.monotonic() < deadline:
            time.sleep(0.02)  # the server ends an env once its session is closed
    print(json.dumps({"some": some, "every": every, "finite": finite, "left_open": left_open}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
