"""Shows schemas to the real transformers, and puts together again what a model would read of them.

Run by the venv of ``make_venv.sh``: ``real_schemas.py`` reads a JSON list of OpenAI function schemas on standard input,
and writes what ``get_json_schema`` makes of the methods for them.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

from agent_env.training.trl.imports import third_party
from agent_env.training.trl.methods import tool_methods


def main() -> None:
    """Read the tools, write what a model would see of them."""
    get_json_schema = third_party("transformers.utils").get_json_schema
    shown: list[Any] = []
    for tool in json.load(sys.stdin):
        calls: list[Any] = []

        def play(_self: Any, name: str, arguments: Any, calls: list[Any] = calls) -> str:
            calls.append([name, arguments])
            return ""

        (method,) = tool_methods([tool], play)
        holder = type("Holder", (), {method.attribute: method.function})
        found = [name for name, _ in inspect.getmembers(holder, predicate=inspect.isfunction)]
        bound = getattr(holder(), found[0])
        schema = get_json_schema(bound)
        bound(**dict.fromkeys(schema["function"]["parameters"]["properties"], 1))
        shown.append({"schema": schema, "name": bound.__name__, "called": calls[0]})
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main()
