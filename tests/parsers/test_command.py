"""``agentenv parse`` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_env.plugin.parsing.render import same_json

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def parse() -> Run:
    def run(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        program = "import sys\nsys.argv[0] = 'agentenv'\nfrom _agentenv_start import main\nmain()"
        return subprocess.run(
            [sys.executable, "-c", program, "parse", *arguments],
            input=text,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            timeout=60,
            check=False,
        )

    return run


def test_lines_of_all_cases(family: str, parse: Run, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = Path(__file__).parent / "cases" / "tool_calls.jsonl"
    chosen = [case for case in map(json.loads, file.read_text().splitlines()) if case["family"] == family]
    requests = tmp_path / "requests.jsonl"
    requests.write_text("\n".join(json.dumps({"text": case["text"], "tools": case["tools"]}) for case in chosen))
    done = parse("--parser", family, "--jsonl", str(requests))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(chosen)
    for case, answer in zip(chosen, answers, strict=True):
        for call in answer["calls"]:
            start, end = call.pop("span")
            assert case["text"][start:end] == call.pop("raw")
        assert same_json(answer, case["expect"]), case["id"]


def test_a_bad_line_keeps_the_others_in_their_places(parse: Run) -> None:
    lines = b'{"text": "a"}\nnonsense\n{"text": 3}\n\xff\n[]\n{"text": "b", "tools": 7}\n{"text": "c", "tools": null}'
    done = parse("--parser", "hermes", "--jsonl", text=lines)
    assert done.returncode == 1
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("content") for answer in answers] == ["a", None, None, None, None, None, "c"]
    for number in (2, 3, 4, 5, 6):
        assert f"error: line {number}: " in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_json(parse: Run, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "now"}}]')
    text = 'é <tool_call>{"name": "now"}</tool_call>'
    done = parse("--parser", "qwen25", "--tools", str(tools), "--json", text=text.encode())
    assert done.returncode == 0
    answer: dict[str, Any] = json.loads(done.stdout)
    raw = text[2:]
    assert answer == {
        "content": "é",
        "reasoning": None,
        "calls": [{"status": "OK", "name": "now", "arguments": {}, "raw": raw, "span": [2, len(text)]}],
    }


def test_shown_to_people(parse: Run) -> None:
    text = b'<think>hm</think>Hi \x1b[2J<tool_call>{"name": "a\\ud800"}</tool_call>'
    done = parse("--parser", "hermes", text=text)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert "UNKNOWN_TOOL" in shown
    assert "reasoning  hm" in shown
    assert "\x1b" not in shown  # what a model writes does not steer the terminal


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (["--parser", "hermess"], b"", "hermes"),
        (["--parser", "hermes", "missing.txt"], b"", "missing.txt"),
        (["--parser", "hermes", "--tools", "missing.json"], b"", "missing.json"),
        (["--parser", "hermes", "--json", "--jsonl"], b"", "--jsonl"),
        (["--parser", "hermes"], b"\xff", "UTF-8"),
        (["--parser", "hermes", "/"], b"", "cannot be read"),
    ],
)
def test_mistakes_are_said(parse: Run, arguments: list[str], text: bytes, words: str) -> None:
    done = parse(*arguments, text=text)
    assert done.returncode != 0
    assert done.stderr.startswith(b"error: ")
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '[{"type": "function", "function": {}}]'])
def test_tools_of_another_shape_are_refused(parse: Run, tmp_path: Path, content: str) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(content)
    done = parse("--parser", "hermes", "--tools", str(tools))
    assert done.returncode == 2
    assert str(tools) in done.stderr.decode()
