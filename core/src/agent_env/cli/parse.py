"""``agentenv parse``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_env.plugin.parser import CallAttempt, ParsedReply, ToolCallParser


_HELP: Final = """Show what a tool-call parser sees in a model's reply.

The reply is read from FILE, or from standard input without it (or with -). It is shown with the attempts' text
marked in colour on a terminal, then each attempt with its status.

\b
--json prints an object with the keys
  content      text outside calls and reasoning
  reasoning    text of the think block, or null
  calls        list of {status, name, arguments, raw, span}, in order;
               span is [start, end] in characters
--jsonl reads objects {text, tools} and prints such an object for each
line; a line that cannot be read is answered with {"error": message}, so
that lines stay aligned, said on stderr with its number, and makes the
exit code 1. A line without tools takes those of --tools.
"""


@click.command("parse", help=_HELP)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--parser", "name", required=True, metavar="NAME", help="The parser; see `agentenv plugins list`.")
@click.option(
    "--tools",
    "tools_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="JSON file with the offered tools, a list of OpenAI function schemas. Without it no tool is offered.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Read one JSON object a line, and answer one a line.")
def command(*, file: Path | None, name: str, tools_file: Path | None, as_json: bool, as_jsonl: bool) -> None:
    """Show what a parser sees."""
    from agent_env.errors import UsageError
    from agent_env.registry import default_registry

    if as_json and as_jsonl:
        raise UsageError("--json and --jsonl exclude each other: --jsonl prints JSON, one object a line")
    parser = cast("ToolCallParser", default_registry().load("parser", name)())
    tools = _read_tools(tools_file) if tools_file is not None else []
    if as_jsonl:
        _answer_lines(parser, file, tools)
        return
    text = _read(file)
    reply = parser.parse(text, tools)
    if as_json:
        _print_line(describe(reply), indent=2)
        return
    _show(text, reply)


def describe(reply: ParsedReply) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "content": reply.content,
        "reasoning": reply.reasoning,
        "calls": [
            {
                "status": str(call.status),
                "name": call.name,
                "arguments": call.arguments,
                "raw": call.raw,
                "span": list(call.span),
            }
            for call in reply.calls
        ],
    }


def _answer_lines(parser: ToolCallParser, file: Path | None, tools: list[Mapping[str, Any]]) -> None:
    from agent_env.cli.errors import print_error

    failed = 0
    for number, line in enumerate(_lines(file), start=1):
        try:
            text, offered = _read_request(line, tools)
        except ValueError as error:
            failed += 1
            print_error(f"line {number}: {error}")
            _print_line({"error": f"line {number}: {error}"})
            continue
        _print_line(describe(parser.parse(text, offered)))
    if failed:
        raise click.exceptions.Exit(1)


def _read_request(line: bytes, tools: list[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Text and tools of one line; a `ValueError` says what is wrong with it."""
    try:
        request: object = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    fields = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
    text = fields.get("text")
    if not isinstance(text, str):
        raise ValueError(  # noqa: TRY004
            'expected an object {"text": "...", "tools": [...]} with a string as its text'
        )
    offered = fields.get("tools")
    return text, tools if offered is None else _check_tools(offered, "its tools")


def _read_tools(file: Path) -> list[Mapping[str, Any]]:
    from agent_env.errors import UsageError

    text = _read_file(file)
    try:
        return _check_tools(json.loads(text), f"{file}: the tools")
    except (ValueError, RecursionError) as error:
        raise UsageError(str(error) if str(error).startswith(str(file)) else f"{file} is not JSON: {error}") from None


def _check_tools(value: object, what: str) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(_is_tool(item) for item in items):
        raise ValueError(
            f'{what} must be a list of {{"type": "function", "function": {{"name": ..., "parameters": ...}}}}'
        )
    return cast("list[Mapping[str, Any]]", items)


def _is_tool(item: object) -> bool:
    if not isinstance(item, Mapping):
        return False
    tool = cast("Mapping[str, object]", item)
    function = tool.get("function", tool)
    return isinstance(function, Mapping) and isinstance(cast("Mapping[str, object]", function).get("name"), str)


def _read(file: Path | None) -> str:
    from agent_env.errors import UsageError

    if file is not None and str(file) != "-":
        return _read_file(file)
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error.reason} at byte {error.start}") from None


def _read_file(file: Path) -> str:
    from agent_env.errors import UsageError

    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None


def _lines(file: Path | None) -> Iterator[bytes]:
    """Lines of the file or of standard input, read as they are asked for; a last line may lack its line break."""
    from agent_env.errors import UsageError

    if file is None or str(file) == "-":
        yield from sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    with stream:
        yield from stream


def _print_line(value: object, indent: int | None = None) -> None:
    """JSON on stdout; text that no encoding can hold (half of a surrogate pair) is escaped."""
    line = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(value, indent=indent)
    click.echo(line.encode())


def _show(text: str, reply: ParsedReply) -> None:
    """The reply with its attempts marked, then what was read."""
    at = 0
    pieces: list[str] = []
    for call in reply.calls:
        start, end = call.span
        pieces += [_safe(text[at:start]), click.style(_safe(text[start:end]), fg=_colour(call), bold=True)]
        at = end
    pieces.append(_safe(text[at:]))
    click.echo("".join(pieces).rstrip("\n"))
    click.echo()
    if reply.reasoning is not None:
        click.echo(f"{click.style('reasoning', bold=True)}  {_safe(reply.reasoning)}")
    click.echo(f"{click.style('content', bold=True)}    {_safe(reply.content)}")
    if not reply.calls:
        click.echo("no call")
    for number, call in enumerate(reply.calls, start=1):
        status = click.style(str(call.status), fg=_colour(call), bold=True)
        start, end = call.span
        click.echo(f"{click.style(f'call {number}', bold=True)}     {status}  characters {start} to {end}")
        click.echo(f"  name       {_safe(call.name) if call.name is not None else '-'}")
        arguments = "-" if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False)
        click.echo(f"  arguments  {_safe(arguments)}")


def _colour(call: CallAttempt) -> str:
    return {"OK": "green", "UNKNOWN_TOOL": "yellow"}.get(str(call.status), "red")


def _safe(text: str) -> str:
    """Text for a terminal: no control sequences of the model's, and nothing that cannot be encoded."""
    shown = "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)
    return shown.encode(errors="backslashreplace").decode()
