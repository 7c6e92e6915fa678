"""The parsers beside SGLang's on the recorded cases. Set SGLANG_PYTHON to a Python that has sglang.

Every difference must be one that ``docs/parsers.md`` explains: SGLang gives no call, or another one, where the case's
own expectation says what is right. What is held here: on whole, valid calls of documented shape the two agree.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.parsing.render import same_json, tools_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.parser import ToolCallParser

NAMES = {
    "hermes": "hermes",
    "qwen25": "qwen25",
    "qwen3_coder": "qwen3_coder",
    "llama3_json": "llama3",
    "pythonic": "pythonic",
    "mistral": "mistral",
    "deepseek_v3": "deepseekv3",
    "deepseek_v31": "deepseekv31",
    "deepseek_v32": "deepseekv32",
    "kimi_k2": "kimi_k2",
    "glm45": "glm45",
    "minimax_m2": "minimax-m2",
    "gpt_oss": "gpt-oss",
}
BEFORE = {"gpt_oss": "<|start|>assistant"}  # stands in the prompt; SGLang reads no call without it
SCRIPT = Path(__file__).parent / "sglang_oracle.py"
CALLS: list[list[dict[str, Any]]] = [
    [{"name": "weather", "arguments": {"city": "Oslo", "days": 3, "metric": True}}],
    [
        {"name": "search", "arguments": {"query": "red shoes", "tags": ["a", "b"], "filter": {"year": {"min": 2001}}}},
        {"name": "weather", "arguments": {"city": "Zürich"}},
    ],
]


@pytest.fixture(scope="module")
def oracle() -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    python = os.environ.get("SGLANG_PYTHON")
    if not python:
        pytest.skip("SGLANG_PYTHON names no Python with sglang")

    def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [python, str(SCRIPT)],
            input="\n".join(json.dumps(request) for request in requests),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return ask


def test_agrees_on_valid_calls(
    oracle: Callable[..., list[dict[str, Any]]], parser_of: Callable[[str], ToolCallParser]
) -> None:
    requests: list[dict[str, Any]] = [
        {
            "family": family,
            "parser": name,
            "text": BEFORE.get(family, "") + (parser_of(family).render(calls) or ""),
            "tools": tools_of(calls),
            "calls": calls,
        }
        for family, name in NAMES.items()
        for calls in CALLS
    ]
    differing = [
        (request["family"], request["text"], answer)
        for request, answer in zip(requests, oracle(requests), strict=True)
        if not same_json(answer.get("calls"), request["calls"])
    ]
    assert differing == []
