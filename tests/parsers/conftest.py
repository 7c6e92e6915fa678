"""The recorded cases, and texts made from them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.registry import default_registry
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.plugin.parser import ToolCallParser

FAMILIES = (
    "hermes",
    "qwen25",
    "qwen3_coder",
    "llama3_json",
    "pythonic",
    "mistral",
    "deepseek_v3",
    "deepseek_v31",
    "deepseek_v32",
    "kimi_k2",
    "glm45",
    "minimax_m2",
    "gpt_oss",
)
CASES = Path(__file__).parent / "cases" / "tool_calls.jsonl"
NOISE = ('"', "\\", "{", "}", "[", "]", "\n", "\r\n", " ", "<", "</think>", "<think>", "é", "😀", "<tool_", "`", "'")
_FRAGMENT = re.compile(r'<[^<>\n]{1,60}>|\[[A-Z_]+\]|"[^"]*"|[{}\[\]();,:=]|\w+|\s+|\\')


@cache
def recorded() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())


@cache
def strategy(family: str) -> st.SearchStrategy[str]:
    """Replies of the family: whole, glued, cut, with fragments put in and taken out; and fragments alone."""
    texts = [case["text"] for case in recorded() if case["family"] in {family, {"qwen25": "hermes"}.get(family)}]
    fragments = sorted({piece for text in texts for piece in _FRAGMENT.findall(text)}.union(NOISE))
    edit = st.tuples(st.integers(0, 1 << 12), st.integers(0, 12), st.sampled_from(fragments))
    glued = st.lists(st.sampled_from(texts), min_size=1, max_size=2).map("".join)
    soup = st.lists(st.sampled_from(fragments), max_size=20).map("".join)
    return st.one_of(soup, st.builds(_edited, glued, st.lists(edit, max_size=3), st.integers(0, 1 << 12)))


def _edited(text: str, edits: Sequence[tuple[int, int, str]], cut: int) -> str:
    for place, length, piece in edits:
        at = place % (len(text) + 1)
        text = text[:at] + piece + text[at + length :]
    return text[: cut % (3 * len(text) + 3)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "family" in metafunc.fixturenames:
        metafunc.parametrize("family", FAMILIES)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", recorded(), ids=[case["id"] for case in recorded()])


@pytest.fixture(scope="session")
def parser_of() -> Callable[[str], ToolCallParser]:
    """The installed parser of a family."""

    @cache
    def load(family: str) -> ToolCallParser:
        parser: ToolCallParser = default_registry().load("parser", family)()
        return parser

    return load


@pytest.fixture(scope="session")
def replies_of() -> Callable[[str], st.SearchStrategy[str]]:
    """A strategy of replies of a family."""
    return strategy


@pytest.fixture(scope="session")
def all_tools() -> list[dict[str, Any]]:
    """The tools of all cases."""
    return list({tool["function"]["name"]: tool for case in recorded() for tool in case["tools"]}.values())
