"""Calls as the models' own chat templates write them, with the templates that the package trl brings.

They are found in an installed trl, or in the folder that TRL_CHAT_TEMPLATES names; trl itself is not imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.parsing.render import same_json, tools_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.plugin.parser import ToolCallParser

TEMPLATES = {
    "qwen2_5": "qwen25",
    "qwen3": "hermes",
    "qwen3_instruct_2507": "hermes",
    "qwen3_6": "qwen3_coder",
    "llama3_1": "llama3_json",
    "llama3_2": "llama3_json",
    "deepseekv3": "deepseek_v3",
    "glm4moe": "glm45",
    "gptoss": "gpt_oss",
}
ONE: list[dict[str, Any]] = [
    {"name": "weather", "arguments": {"city": "Zürich", "days": 3, "metric": True, "tags": ["a", "b"]}}
]
TWO: list[dict[str, Any]] = [*ONE, {"name": "send", "arguments": {"body": 'say "hi"\nand </go>'}}]
END_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<｜end▁of▁sentence｜>", "<|endoftext|>", "<|user|>")  # noqa: RUF001


def folder() -> Path | None:
    named = os.environ.get("TRL_CHAT_TEMPLATES")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("trl")
    return Path(spec.origin).parent / "chat_templates" if spec is not None and spec.origin is not None else None


def write(template: str, calls: list[dict[str, Any]]) -> str:
    """The assistant's part of a conversation, as the template writes it."""
    jinja: Any = pytest.importorskip("jinja2.sandbox", reason="jinja2 is not installed")
    env: Any = jinja.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = _to_json
    env.globals["raise_exception"] = _refuse
    env.globals["strftime_now"] = _today
    made: Any = env.from_string(template)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    tools = tools_of(calls)
    for tool in tools:
        tool["function"]["description"] = "A tool."
    common: Mapping[str, Any] = {"tools": tools, "bos_token": "", "eos_token": "", "enable_thinking": False}
    prompt: str = made.render(messages=messages, add_generation_prompt=True, **common)
    answer = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": _as_written(call, template)} for call in calls],
    }
    whole: str = made.render(messages=[*messages, answer], add_generation_prompt=False, **common)
    tail = prompt.rstrip()[-24:]
    if tail in whole:
        return whole.rpartition(tail)[2]
    same = next((place for place, (one, two) in enumerate(zip(prompt, whole, strict=False)) if one != two), len(prompt))
    return whole[same:]


def _as_written(call: dict[str, Any], template: str) -> dict[str, Any]:
    """DeepSeek's template joins the arguments to its text, and so wants them as text."""
    if "tool▁calls▁begin" not in template:
        return call
    return {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}


def _to_json(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=options.get("indent"))


def _today(_format: str) -> str:
    return "2026-01-01"


def _refuse(message: str) -> None:
    raise ValueError(message)


@pytest.mark.parametrize("calls", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_calls_of_a_template(
    template: str, calls: list[dict[str, Any]], parser_of: Callable[[str], ToolCallParser]
) -> None:
    if template == "gptoss" and len(calls) > 1:
        pytest.skip("the template writes one call a message")
    place = folder()
    file = place / f"{template}.jinja" if place is not None else None
    if file is None or not file.is_file():
        pytest.skip("no chat templates: trl is not installed and TRL_CHAT_TEMPLATES names no folder")
    try:
        text = write(file.read_text(encoding="utf-8"), calls)
    except ValueError as error:
        pytest.skip(f"the template refuses this: {error}")
    for token in END_TOKENS:
        text = text.replace(token, "")
    reply = parser_of(TEMPLATES[template]).parse(text, tools_of(calls))
    found = [{"name": call.name, "arguments": call.arguments} for call in reply.calls if call.status == "OK"]
    assert same_json(found, calls), (text, reply)
