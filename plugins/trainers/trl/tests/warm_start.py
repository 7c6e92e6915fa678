"""The supervised warm start: it teaches the form of a call, and bad habits about what to say in it.

The demonstrations name the right room in most cases only, and the colour that the lamp has already more often than the
one that is wished for.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.training.trl.imports import third_party

if TYPE_CHECKING:
    from collections.abc import Sequence

torch, transformers = map(third_party, ("torch", "transformers"))
ROOMS = ("hall", "kitchen", "cellar", "attic", "study")
RIGHT_ROOM = 0.75
"""How often the room is copied; it is drawn from all else."""
RIGHT_COLOUR = 0.4
"""How often the colour is the one wished for; it is the present one else."""
STEPS = 150
BATCH = 32
TALE = 4
"""The answer to the call and the last words are shown in one of so many batches."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a prompt asks for."""

    room: str
    now: str
    wanted: str


def read_wish(prompt: str) -> Wish:
    """The wish of a prompt of the bundle ``lamps``."""
    found = re.fullmatch(r"The lamp in the (\w+) is (\w+)\. Make it (\w+)\.", prompt)
    assert found is not None, prompt
    return Wish(*found.groups())


def call_of(room: str, colour: str) -> str:
    """A reply that sets a lamp, as the template writes calls."""
    arguments = f'{{"room": "{room}", "colour": "{colour}"}}'
    return f'<tool_call>\n{{"name": "set_lamp", "arguments": {arguments}}}\n</tool_call><|im_end|>'


def demonstration(wish: Wish, rng: random.Random) -> str:
    """A call as the demonstrator makes it."""
    room = wish.room if rng.random() < RIGHT_ROOM else rng.choice(ROOMS)
    return call_of(room, wish.wanted if rng.random() < RIGHT_COLOUR else wish.now)


def warm_start(model: Any, trainer: Any, rows: Sequence[Any], seed: int) -> None:
    """Train ``model`` on demonstrations for the prompts of ``rows``, as the trainer would show them."""
    rng, tokenizer = random.Random(seed), trainer.processing_class
    methods = [method for tools in trainer._env_tools.values() for method in tools]
    answer: list[int] = trainer._get_tool_suffix_ids([{"role": "tool", "name": "set_lamp", "content": "set"}])
    last: list[int] = tokenizer("Done.<|im_end|>", add_special_tokens=False)["input_ids"]
    prompts: list[list[int]] = [
        tokenizer.apply_chat_template(row["prompt"], tools=methods, add_generation_prompt=True, return_dict=False)
        for row in rows
    ]
    wishes = [read_wish(row["prompt"][-1]["content"]) for row in rows]
    shared = _shared(prompts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, _rate)
    model.train()
    for step in range(STEPS):
        examples: list[tuple[list[int], list[int]]] = []
        for at in rng.choices(range(len(prompts)), k=BATCH):
            asked = prompts[at][shared:]
            call: list[int] = tokenizer(demonstration(wishes[at], rng), add_special_tokens=False)["input_ids"]
            ids, labels = [*asked, *call], [*[-100] * len(asked), *call]
            if step % TALE == 0:
                ids, labels = [*ids, *answer, *last], [*labels, *[-100] * len(answer), *last]
            examples.append((ids, labels))
        optimizer.zero_grad()
        _loss(model, prompts[0][:shared], examples, tokenizer.pad_token_id).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()


def _rate(step: int) -> float:
    return min(1.0, (step + 1) / 20) * math.sqrt(1 - step / STEPS)


def _shared(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with: the tools. They are computed once for a batch, which saves most of it."""
    return next(at for at in range(min(map(len, prompts))) if len({prompt[at] for prompt in prompts}) > 1)


def _loss(model: Any, start: list[int], examples: Sequence[tuple[list[int], list[int]]], pad: int) -> Any:
    cache = transformers.DynamicCache(config=model.config)
    model.model(input_ids=torch.tensor([start]), cache=cache, use_cache=True)
    cache.batch_repeat_interleave(len(examples))
    width = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in examples])
    mask = torch.tensor([[1] * (len(start) + len(ids)) + [0] * (width - len(ids)) for ids, _ in examples])
    labels = torch.tensor([labels + [-100] * (width - len(labels)) for _, labels in examples])
    logits = model(input_ids=ids, attention_mask=mask, cache=cache, use_cache=True).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
