"""A model folder without weights: a small trained tokenizer, a ChatML template with tools, Qwen 3's configuration."""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found]
from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}\
{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}\
{%- for tool in tools %}{{ tool | tojson + '\\n' }}{% endfor %}{{ '<|im_end|>\\n' }}\
{%- elif messages[0].role == 'system' %}\
{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}\
{%- for message in messages %}\
{%- if message.role == 'system' and loop.first %}\
{%- else %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}\
{%- for call in message.tool_calls or [] %}\
{{ '<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}{% endfor %}\
{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}\
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def write_tiny_model(folder: Path) -> Any:
    """Write the folder; returns its tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEMPLATE, '{"name": "look", "arguments": {}} the word xyzzy schedule'] * 9, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    fast.save_pretrained(folder)
    config = {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": len(fast),
        "max_position_embeddings": 65536,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return fast
