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
from dataclasses import dataclass
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
import json, signal, sys, time
from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
def stop(*_): raise TimeoutError
signal.signal(signal.SIGALRM, stop)
for line in sys.stdin:
    request = json.loads(line)
    tools = [Tool(type="function", function=Function(**tool["function"])) for tool in request["tools"]]
    times = {}
    for key, repeat in (("small", 30), ("large", 1)):
        spent = []
        signal.alarm(request["patience"])
        try:
            for _ in range(repeat):
                parser = FunctionCallParser(tools, request["parser"])
                began = time.perf_counter()
                parser.parse_non_stream(request[key])
                spent.append(time.perf_counter() - began)
        except BaseException:
            spent = spent if key == "small" else []
        signal.alarm(0)
        times[key] = min(spent) if spent else None
    print("RESULT " + json.dumps(times), flush=True)
"""
PATIENCE = 15  # seconds that one of SGLang's parsers gets for a text


@dataclass
class Row:
    """One parser, its texts and its times in seconds."""

    family: str
    small: str
    large: str
    ours_small: float
    ours_large: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--sglang-python", metavar="PATH", help="a Python that has sglang")
    options = arguments.parse_args()
    python = options.sglang_python or (sys.executable if importlib.util.find_spec("sglang") else None)
    rows = [measured(family) for family in SGLANG]
    none: dict[str, float | None] = {"small": None, "large": None}
    theirs = sglang_times(python, rows) if python else [none] * len(rows)
    print(f"{'parser':14}{'4 KB':>10}{'1 MB':>10}{'per byte':>10}{'SGLang 4 KB':>14}{'1 MB':>11}{'ratio':>8}")
    for row, other in zip(rows, theirs, strict=True):
        growth = (row.ours_large / len(row.large)) / (row.ours_small / len(row.small))
        small, large = other["small"], other["large"]
        ratio = f"{small / row.ours_small:.1f}x" if small else "-"
        late = "-" if not python else f"> {PATIENCE} s"
        print(
            f"{row.family:14}{shown(row.ours_small):>10}{shown(row.ours_large):>10}{growth:>9.2f}x"
            f"{shown(small) if small else '-':>14}{shown(large) if large else late:>11}{ratio:>8}"
        )
    if not python:
        print("SGLang is not here: name a Python that has it with --sglang-python")


def measured(family: str) -> Row:
    """Our times for a family."""
    parser: ToolCallParser = default_registry().load("parser", family)()
    tools = tools_of(CALLS)
    small = reply(parser, family, 4_000)
    large = small * (1_000_000 // len(small))
    return Row(
        family,
        small,
        large,
        best(lambda: parser.parse(small, tools), 200),
        best(lambda: parser.parse(large, tools), 5),
    )


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


def sglang_times(python: str, rows: list[Row]) -> list[dict[str, float | None]]:
    """SGLang's times; `None` where its parser fails or takes too long."""
    tools = tools_of(CALLS)
    lines = [
        json.dumps(
            {"parser": SGLANG[row.family], "small": row.small, "large": row.large, "tools": tools, "patience": PATIENCE}
        )
        for row in rows
    ]
    command = [python, "-c", ORACLE]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, cwd=Path.home())
    if done.returncode != 0:
        print(done.stderr[-1500:], file=sys.stderr)
        raise SystemExit("SGLang's parsers did not run")
    return [json.loads(line.removeprefix("RESULT ")) for line in done.stdout.splitlines() if line.startswith("RESULT ")]


def shown(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
