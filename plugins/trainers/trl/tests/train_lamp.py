"""Trains a tiny model on the served bundle ``lamp`` with the real GRPOTrainer, and writes the learning curve.

Run by the venv of ``make_venv.sh``: ``train_lamp.py URL OUT.json [--steps 45]``. Everything random has a fixed
seed, and one thread computes, so that two runs on one machine give the same curve.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from pathlib import Path
from typing import Any

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from agent_env.training.trl import BundleSpec
from agent_env.training.trl.imports import third_party

torch, trl, tokenizers, transformers = map(third_party, ("torch", "trl", "tokenizers", "transformers"))
Callback: type[object] = transformers.TrainerCallback

SEED = 7
BUTTONS = ("left", "middle", "right")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WARM_STEPS = 160


def call_of(button: str) -> str:
    """A reply that presses a button, as the template writes calls."""
    return f'<tool_call>\n{{"name": "press", "arguments": {{"button": "{button}"}}}}\n</tool_call><|im_end|>'


def make_tokenizer(spec: BundleSpec) -> Any:
    """A tokenizer that learned its merges from the template and the conversations of this bundle alone."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    texts = [template, json.dumps(spec.tools), *(call_of(button) for button in BUTTONS)]
    texts += [message["content"] for row in spec.train_dataset for message in row["prompt"]]
    alphabet = tokenizers.pre_tokenizers.ByteLevel
    bare = tokenizers.Tokenizer(tokenizers.models.BPE())
    bare.pre_tokenizer = alphabet(add_prefix_space=False)
    bare.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=800, special_tokens=SPECIAL, initial_alphabet=alphabet.alphabet()
    )
    bare.train_from_iterator(texts * 4, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = template
    return tokenizer


def make_model(tokenizer: Any) -> Any:
    """A random model of about 0.4 million parameters."""
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return transformers.Qwen3ForCausalLM(config)


def warm_up(model: Any, trainer: Any, spec: BundleSpec, rng: random.Random) -> None:
    """Teach the form of a call, with buttons drawn at random: which is the best is left to be found out."""
    tokenizer: Any = trainer.processing_class
    methods = [method for tools in trainer._env_tools.values() for method in tools]
    answer = trainer._get_tool_suffix_ids([{"role": "tool", "name": "press", "content": "pressed"}])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    prompts: list[list[int]] = [
        tokenizer.apply_chat_template(row["prompt"], tools=methods, add_generation_prompt=True, return_dict=False)
        for row in spec.train_dataset
    ]
    fading = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, WARM_STEPS)
    model.train()
    for _ in range(WARM_STEPS):
        examples: list[tuple[list[int], list[int]]] = []
        for prompt in rng.choices(prompts, k=8):
            call: list[int] = tokenizer(call_of(rng.choice(BUTTONS)), add_special_tokens=False)["input_ids"]
            last: list[int] = tokenizer("Done.<|im_end|>", add_special_tokens=False)["input_ids"]
            examples.append(
                ([*prompt, *call, *answer, *last], [*[-100] * len(prompt), *call, *[-100] * len(answer), *last])
            )
        width = max(len(ids) for ids, _ in examples)
        ids = torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids, _ in examples])
        labels = torch.tensor([labels + [-100] * (width - len(labels)) for _, labels in examples])
        loss = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fading.step()


class Curve(Callback):  # type: ignore[misc, valid-type]
    """Keeps what the trainer logs."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if logs and "reward" in logs:
            self.logs.append({"step": state.global_step, **logs})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=45)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    began = time.perf_counter()
    spec = BundleSpec(options.url)
    tokenizer = make_tokenizer(spec)
    model = make_model(tokenizer)
    curve = Curve()
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
            num_generations=8,
            per_device_train_batch_size=24,
            max_completion_length=96,
            learning_rate=5e-4,
            beta=0.0,
            max_steps=options.steps,
            seed=SEED,
        ),
        processing_class=tokenizer,
        train_dataset=spec.train_dataset,
        eval_dataset=spec.eval_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=spec.reward_funcs,
        callbacks=[spec.callback, curve],
    )
    warm_up(model, trainer, spec, random.Random(SEED))
    warm = time.perf_counter()
    trainer.train()
    environments = [environment for pool in trainer._environment_pool.values() for environment in pool]
    report = {
        "rewards": [log["reward"] for log in curve.logs],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": len(tokenizer),
        "batch": 24,
        "seconds": {"warm_up": warm - began, "training": time.perf_counter() - warm},
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "open_after_training": sum(not environment._over() for environment in environments),
        "last_log": curve.logs[-1],
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
