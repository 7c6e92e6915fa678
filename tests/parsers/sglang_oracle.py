"""Runs in a Python that has sglang: one request a line in, SGLang's result a line out."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    protocol: Any = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
    parsers: Any = importlib.import_module("sglang.srt.function_call.function_call_parser")
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        tools: list[Any] = [
            protocol.Tool(
                type="function",
                function=protocol.Function(**{key: tool["function"].get(key) for key in ("name", "parameters")}),
            )
            for tool in request["tools"]
        ]
        answer: dict[str, Any]
        try:
            text, calls = parsers.FunctionCallParser(tools, request["parser"]).parse_non_stream(request["text"])
            found = [{"name": call.name, "arguments": json.loads(call.parameters or "{}")} for call in calls]
            answer = {"content": text, "calls": found}
        except Exception as error:  # noqa: BLE001 - whatever the oracle does is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
