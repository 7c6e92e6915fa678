"""Runs in a Python that has sglang: one request a line in, SGLang's result a line out."""

import json
import sys


def main() -> None:
    from sglang.srt.entrypoints.openai.protocol import Function, Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    for line in sys.stdin:
        request = json.loads(line)
        tools = [
            Tool(
                type="function",
                function=Function(**{key: tool["function"].get(key) for key in ("name", "parameters")}),
            )
            for tool in request["tools"]
        ]
        try:
            text, calls = FunctionCallParser(tools, request["parser"]).parse_non_stream(request["text"])
            found = [{"name": call.name, "arguments": json.loads(call.parameters or "{}")} for call in calls]
            answer = {"content": text, "calls": found}
        except Exception as error:  # noqa: BLE001 - whatever the oracle does is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
