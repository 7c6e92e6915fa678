"""A policy behind verl's server client: it reads the conversation out of the prompt's tokens and writes tokens.

It writes text one byte a token, which the tokenizer itself would join: whoever tokenises a reply again is found out.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from verl.workers.rollout.replica import TokenOutput  # type: ignore[import-not-found]

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", re.DOTALL)


class StubServer:
    """Has `generate`, as ``LLMServerClient``."""

    def __init__(self, tokenizer: Any, policy: Any) -> None:
        self._tokenizer = tokenizer
        self._policy = policy
        self._bytes = {byte: tokenizer.convert_tokens_to_ids(char) for byte, char in _byte_chars().items()}
        self.requests: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **rest: Any) -> Any:
        """A reply."""
        text = self._tokenizer.decode(prompt_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if not text.endswith("<|im_start|>assistant\n"):
            raise ValueError(f"the prompt does not end where a reply begins: ...{text[-60:]!r}")
        if self._policy is None:
            raise RuntimeError("the engine is broken on purpose")
        messages, tools = read_chat(text.removesuffix("<|im_start|>assistant\n"))
        reply = self._policy(messages, tools)
        stop = "completed"
        if reply.get("abort"):
            ids: list[int] = []
            stop = "aborted"
        else:
            words = reply.get("content") or ""
            for call in reply.get("tool_calls") or ():
                words += f"<tool_call>\n{_call_text(call['function'])}\n</tool_call>"
            ids = [*(self._bytes[byte] for byte in words.encode()), self._tokenizer.eos_token_id]
            ids = ids[: sampling_params["max_tokens"]]
        self.requests.append({"id": request_id, "prompt": list(prompt_ids), "reply": ids, "sampling": sampling_params})
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.5] * len(ids) if sampling_params.get("logprobs") else None,
            stop_reason=stop,
            num_preempted=1,
            extra_fields={"global_steps": 7, "min_global_steps": 7, "max_global_steps": 7 + len(self.requests)},
        )


def _call_text(function: dict[str, Any]) -> str:
    arguments = function["arguments"]
    if isinstance(arguments, str):  # as the policy wrote it, JSON or not
        return f'{{"name": {json.dumps(function["name"])}, "arguments": {arguments}}}'
    return json.dumps({"name": function["name"], "arguments": arguments})


def read_chat(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools of a prompt."""
    if "".join(match.group(0) for match in _TURN.finditer(text)) != text:
        raise ValueError(f"the prompt is not made of whole turns: {text!r}")
    messages: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    for role, text_of_turn in _TURN.findall(text):
        body = text_of_turn
        if role == "system":
            lines = body.splitlines()
            tools = [json.loads(line) for line in lines if line.startswith('{"type"')]
            body = "\n".join(line for line in lines if not line.startswith('{"type"')).strip()
            if not body:
                continue
        message: dict[str, Any] = {"role": role, "content": _CALL.sub("", body) if role == "assistant" else body}
        calls = _CALL.findall(body) if role == "assistant" else []
        if calls:
            message["tool_calls"] = [{"function": _read_call(call)} for call in calls]
        messages.append(message)
    return messages, tools


def _read_call(text: str) -> dict[str, Any]:
    try:
        call = json.loads(text)
        return {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    except (ValueError, KeyError):
        return {"name": "", "arguments": text}


def load_policy(name: str) -> Any:
    """``path/to/policies.py:function``."""
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("bundle_policies", Path(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def _byte_chars() -> dict[int, str]:
    """The characters by which byte-level tokenizers write bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {byte: chr(byte) for byte in plain}
    others = [byte for byte in range(256) if byte not in chars]
    return chars | {byte: chr(256 + place) for place, byte in enumerate(others)}
