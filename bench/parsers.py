"""Parsing speed: a 4 KB reply and a 1 MB reply of each family, beside SGLang's parser on the same texts.

    python bench/parsers.py [--sglang-python PATH]

SGLang's parsers are timed in the Python of PATH, or in this one when sglang can be imported here; without either, only
ours are shown. Times are the best of several runs; ratios are what to look at.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing.render import tools_of
from agent_env.registry import default_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.parser import ToolCallParser

SGLANG = {
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
PROSE = "I looked at the orders of the last week and will now check the two that are late. "
CALLS: list[dict[str, Any]] = [
    {
        "name": "search_orders",
        "arguments": {
            "query": "late parcels of customer 1047, express only",
            "limit": 20,
            "tags": ["late", "express"],
            "filter": {"year": {"min": 2024}, "open": True},
            "note": "The customer wrote twice.\nAnswer before noon.",
        },
    },
    {"name": "send_mail", "arguments": {"to": "ann@example.com", "body": "We are on it. " * 60, "urgent": True}},
]
ORACLE = """
import json, sys, time
from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
for line in sys.stdin:
    request = json.loads(line)
    tools = [Tool(type="function", function=Function(**tool["function"])) for tool in request["tools"]]
    times = {}
    for key in ("small", "large"):
        best = None
        for _ in range(request["repeat"][key]):
            parser = FunctionCallParser(tools, request["parser"])
            began = time.perf_counter()
            try:
                parser.parse_non_stream(request[key])
            except Exception:
                best = None
                break
            spent = time.perf_counter() - began
            best = spent if best is None else min(best, spent)
        times[key] = best
    print("RESULT " + json.dumps(times), flush=True)
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--sglang-python", metavar="PATH", help="a Python that has sglang")
    options = arguments.parse_args()
    python = options.sglang_python or (sys.executable if importlib.util.find_spec("sglang") else None)
    tools = tools_of(CALLS)
    rows: list[dict[str, Any]] = []
    for family, sglang_name in SGLANG.items():
        parser: ToolCallParser = default_registry().load("parser", family)()
        small = reply(parser, family, 4_000)
        large = small * (1_000_000 // len(small))
        rows.append(
            {
                "family": family,
                "parser": sglang_name,
                "small": small,
                "large": large,
                "tools": tools,
                "repeat": {"small": 50, "large": 2},
                "ours": (
                    best(lambda p=parser, t=small: p.parse(t, tools), 200),
                    best(lambda p=parser, t=large: p.parse(t, tools), 5),
                ),
            }
        )
    theirs = sglang_times(python, rows) if python else [{"small": None, "large": None}] * len(rows)
    print(f"{'parser':14}{'4 KB':>10}{'1 MB':>10}{'per byte':>10}{'SGLang 4 KB':>14}{'1 MB':>10}{'ratio':>8}")
    for row, other in zip(rows, theirs, strict=True):
        first, second = row["ours"]
        growth = (second / len(row["large"])) / (first / len(row["small"]))
        ratio = f"{other['small'] / first:.1f}x" if other["small"] else "-"
        print(
            f"{row['family']:14}{shown(first):>10}{shown(second):>10}{growth:>9.2f}x"
            f"{shown(other['small']):>14}{shown(other['large']):>10}{ratio:>8}"
        )
    if not python:
        print("SGLang is not here: name a Python that has it with --sglang-python")


def reply(parser: ToolCallParser, family: str, size: int) -> str:
    """Prose and calls of about this size; a format that must not begin with prose gets more calls."""
    text = parser.render(CALLS)
    if text is None:
        raise SystemExit(f"{family} cannot render the calls")
    room = max(0, size - len(text) - 1)
    return (PROSE * (room // len(PROSE) + 1))[:room] + "\n" + text


def best(run: Callable[[], object], times: int) -> float:
    found = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - began)
    return found


def sglang_times(python: str, rows: list[dict[str, Any]]) -> list[dict[str, float | None]]:
    keys = ("parser", "small", "large", "tools", "repeat")
    lines = "\n".join(json.dumps({key: row[key] for key in keys}) for row in rows)
    done = subprocess.run(
        [python, "-c", ORACLE], input=lines, capture_output=True, text=True, check=False, cwd=Path.home()
    )
    if done.returncode != 0:
        print(done.stderr[-1500:], file=sys.stderr)
        raise SystemExit("SGLang's parsers did not run")
    return [json.loads(line.removeprefix("RESULT ")) for line in done.stdout.splitlines() if line.startswith("RESULT ")]


def shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.3f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
