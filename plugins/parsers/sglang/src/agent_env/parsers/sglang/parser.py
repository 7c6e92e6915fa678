"""Hands a reply over to SGLang, which is imported when a parser is made.

SGLang says neither where a call stood nor what was wrong with one it dropped: an attempt's span is the whole reply, and
there are no attempts but its calls. Its incremental parsers depend on how the text is cut, so that pieces are
collected and parsed at the end.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_env.errors import PluginLoadError
from agent_env.parsers.sglang.hooks import NAMES, attribute
from agent_env.plugin.parser import CallAttempt, CallStatus, ParsedReply, StreamParser, ToolCallParser
from agent_env.plugin.parsing import NotJson, ToolTable, read_arguments_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class SGLangParser(ToolCallParser):
    """One of SGLang's parsers.

    Raises:
        PluginLoadError: SGLang is not installed here, or has no parser of this name.
    """

    def __init__(self, sglang_name: str) -> None:
        self.name = f"sglang_{attribute(sglang_name)}"
        self._sglang_name = sglang_name
        try:
            self._protocol: Any = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
            self._parsers: Any = importlib.import_module("sglang.srt.function_call.function_call_parser")
        except ImportError as error:
            raise PluginLoadError(
                f"the parser {self.name!r} needs SGLang in this environment ({error}); install it with "
                "`pip install sglang`, or use a parser that needs nothing, such as those of agentenv-parser-qwen"
            ) from error
        known = self._parsers.FunctionCallParser.ToolCallParserEnum
        if sglang_name not in known:
            raise PluginLoadError(
                f"the installed SGLang has no parser {sglang_name!r}; it has: {', '.join(sorted(known))}"
            )

    def parse(self, text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedReply:
        """SGLang's result; when it raises, the whole reply is one attempt of no known structure."""
        span = (0, len(text))
        try:
            offered = [self._protocol.Tool(**tool) for tool in tools]
            content, calls = self._parsers.FunctionCallParser(offered, self._sglang_name).parse_non_stream(text)
        except Exception:  # noqa: BLE001 - a parser never raises on model text
            return ParsedReply("", None, (CallAttempt(CallStatus.MALFORMED_STRUCTURE, None, None, text, span),))
        table = ToolTable(tools)
        attempts: list[CallAttempt] = []
        for place, call in enumerate(calls):
            start = 0 if place == 0 else len(text)
            attempts.append(_attempt(call, table, text[start:], (start, len(text))))
        return ParsedReply((content or "").strip(), None, tuple(attempts))

    def stream(self, tools: Sequence[Mapping[str, Any]]) -> StreamParser:
        """Collects the pieces."""
        return _Collected(self, tools)


class _Collected(StreamParser):
    def __init__(self, parser: SGLangParser, tools: Sequence[Mapping[str, Any]]) -> None:
        self._parser = parser
        self._tools = tools
        self._pieces: list[str] = []

    def feed(self, text: str) -> Sequence[CallAttempt]:
        self._pieces.append(text)
        return []

    def finish(self) -> ParsedReply:
        return self._parser.parse("".join(self._pieces), self._tools)


def _attempt(call: Any, tools: ToolTable, raw: str, span: tuple[int, int]) -> CallAttempt:
    name: str | None = call.name or None
    try:
        arguments, decoded = read_arguments_text(call.parameters or "")
    except NotJson:
        return CallAttempt(CallStatus.INVALID_JSON, name, None, raw, span)
    if name is None:
        status = CallStatus.MISSING_NAME
    elif arguments is None or not decoded:
        status = CallStatus.INVALID_ARGUMENTS
    else:
        status = CallStatus.OK if name in tools else CallStatus.UNKNOWN_TOOL
    return CallAttempt(status, name, arguments, raw, span)


_FACTORIES: dict[str, Callable[[], SGLangParser]] = {attribute(name): partial(SGLangParser, name) for name in NAMES}


def __getattr__(name: str) -> Callable[[], SGLangParser]:
    """The factories that the hooks name."""
    try:
        return _FACTORIES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
