"""What the real SkyRL generator is played with: a tokenizer made here, and an engine whose model is a function."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from agent_env.rollout.parsers import load_parser
from agent_env.testing.standin.replies import engine_message
from agent_env.training.skyrl.imports import third_party
from agent_env.training.skyrl.rehearsal import write_reply

TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(*marks: str) -> Any:
    """A token for each byte, and the marks of ChatML; ``marks`` are special tokens too."""
    tokenizers = third_party("tokenizers")
    alphabet: list[str] = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: place for place, char in enumerate(alphabet)}
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain.decoder = tokenizers.decoders.ByteLevel()
    plain.add_special_tokens(["<|im_start|>", "<|im_end|>", *marks])
    tokenizer = third_party("transformers").PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|im_end|>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


class StubEngine:
    """Answers with ``policy(messages, tools)``, read from the tokens of the prompt and nothing else.

    Attributes:
        cut: the first rollout that gets this far ends at the limit, by the number of its reply from 0.
        broken: requests to fail, by their number.
        lengths: tokens of each prompt.
        drifts: prompts that did not begin with what was said before, token by token.
    """

    model_name = "stub"
    weight_version = None

    def __init__(self, policy: Any, tokenizer: Any, *, cut: int | None = None, broken: Any = ()) -> None:
        self.policy, self.tokenizer = policy, tokenizer
        self.cut, self.broken = cut, set(broken)
        self.parser = load_parser("hermes")
        self.requests = 0
        self.drifts = 0
        self.lengths: list[int] = []
        self.finished: list[str] = []
        self.said: dict[str, list[int]] = {}
        self.seen: list[list[dict[str, Any]]] = []

    async def generate(self, batch: dict[str, Any], model: str | None = None) -> dict[str, Any]:
        number, self.requests = self.requests, self.requests + 1
        (ids,), (session,) = batch["prompt_token_ids"], batch["session_ids"]
        before = self.said.get(session, [])
        self.drifts += ids[: len(before)] != before
        self.lengths.append(len(ids))
        await asyncio.sleep(0)
        if number in self.broken:
            raise ConnectionError("the engine broke on purpose")
        messages, tools = self.read(ids)
        self.seen.append(messages)
        text = write_reply(engine_message(self.policy(messages, tools)), self.parser)
        new = self.tokenizer.encode(text, add_special_tokens=False)
        reason = "stop"
        if self.cut is not None and self.cut == sum(message["role"] == "assistant" for message in messages):
            self.cut = None
            new, reason = new[: len(new) // 2], "length"
        else:
            new = [*new, self.tokenizer.eos_token_id]
        self.said[session] = [*ids, *new]
        return {
            "responses": [self.tokenizer.decode(new, skip_special_tokens=True)],
            "response_ids": [new],
            "stop_reasons": [reason],
            "response_logprobs": [[-0.5] * len(new)],
        }

    async def finish_session(self, session: str) -> None:
        self.finished.append(session)

    def read(self, ids: list[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The conversation, tool answers as `tool` messages again, and the tools."""
        messages: list[dict[str, Any]] = []
        tools: list[dict[str, Any]] = []
        for block in self.tokenizer.decode(ids).split("<|im_start|>")[1:-1]:
            role, _, content = block.removesuffix("\n").removesuffix("<|im_end|>").partition("\n")
            if role == "tools":
                tools = json.loads(content)
            elif role == "system" and (listed := re.search(r"<tools>\n(.*)\n</tools>", content, re.DOTALL)):
                tools = [json.loads(line) for line in listed[1].split("\n")]
            answers = re.findall(r"<tool_response>\n(.*?)\n</tool_response>", content, re.DOTALL)
            if role == "user" and answers:
                messages += [{"role": "tool", "content": answer} for answer in answers]
            elif role != "tools":
                messages.append({"role": role, "content": content})
        return messages, tools
