"""What the tests with the real GRPOTrainer share: a tiny random model, a tokenizer of its own, and a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.training.trl.imports import third_party

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_env.training.trl import BundleSpec

tokenizers, transformers, trl = map(third_party, ("tokenizers", "transformers", "trl"))
Callback: type[object] = transformers.TrainerCallback
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_tokenizer(spec: BundleSpec, further: Iterable[str] = ()) -> Any:
    """A tokenizer that learned its merges from the template, the conversations of this bundle and ``further``."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    texts = [template, json.dumps(spec.tools), *further]
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
        initializer_range=0.05,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return transformers.Qwen3ForCausalLM(config)


class Curve(Callback):  # type: ignore[misc, valid-type]
    """Keeps what the trainer logs."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if logs and "reward" in logs:
            self.logs.append({"step": state.global_step, **logs})
