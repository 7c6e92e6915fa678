"""The checks of a tool-call parser."""

from __future__ import annotations

import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from unittest import SkipTest

from agent_env.plugin.parser import CallStatus, ParsedReply, ToolCallParser
from agent_env.plugin.parsing.base import ScanningStream
from agent_env.plugin.parsing.render import same_json, tools_of
from agent_env.testing.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agent_env.testing.checks import Target

CALLS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    ({"name": "now", "arguments": {}},),
    ({"name": "weather", "arguments": {"city": "Zürich", "days": 3, "metric": True}},),
    (
        {
            "name": "search",
            "arguments": {"query": 'say "hi"\n\\ twice', "tags": ["a", "b"], "filter": {"n": {"m": 1.5}}},
        },
        {"name": "now", "arguments": {}},
    ),
)
_JUNK: Final = ("", " ", "\n", "<", '"', "\\", "{" * 300, "[" * 300, "<think>", "</think>", "\x00", "é😀", "\ud800")
_PIECES: Final = ('"', "\\", "{", "}", "[", "]", "\n", "<", ">", " ", "</think>", "<think>", "x", "é", "null", "`")
_ROUNDS: Final = 300


@dataclass(frozen=True, slots=True)
class ParserCase:
    """What is checked.

    Attributes:
        parser: the parser, or its registered name.
        texts: replies in its format, calls and broken calls; needed when the parser cannot render.
        tools: the tools that are offered in those texts, as OpenAI function schemas.
    """

    parser: ToolCallParser | str
    texts: Sequence[str] = ()
    tools: Sequence[Mapping[str, Any]] = ()


class ParserChecks(Checks):
    """Holds a parser to its contract."""

    kind: ClassVar[str] = "parser"
    case: ParserCase

    @classmethod
    def case_of(cls, target: Target) -> ParserCase:
        """The case for an installed parser."""
        return ParserCase(target.registry.load("parser", target.name)())

    def test_has_a_name(self) -> None:
        """The parser has a name, and a registered one is found under it."""
        parser = self._parser
        assert isinstance(parser, ToolCallParser), f"{parser!r} is no ToolCallParser"
        assert parser.name, "the parser has no name"
        if isinstance(self.case.parser, str):
            assert parser.name == self.case.parser, f"it is registered as {self.case.parser!r}, not {parser.name!r}"

    def test_plain_text_is_content(self) -> None:
        """Text without any call stays, without its outer white space."""
        reply = self._parser.parse("  It is cold today.\nTake a coat.  ", self._tools)
        assert reply == ParsedReply("It is cold today.\nTake a coat.", None, ()), reply

    def test_never_raises(self) -> None:
        """No text makes it raise, and what it reports is well-formed."""
        for text in (*_JUNK, *self._mixed()):
            self._check_report(text, self._parser.parse(text, self._tools))

    def test_pieces_equal_the_whole(self) -> None:
        """Fed in pieces, cut anywhere, a text gives what it gives as a whole."""
        dice = random.Random(2)  # noqa: S311 - a test's data
        for text in self._mixed():
            whole = self._parser.parse(text, self._tools)
            longest = dice.choice((1, 2, 5, 40))
            stream = self._parser.stream(self._tools)
            at = 0
            while at < len(text):
                length = dice.randint(1, longest)
                stream.feed(text[at : at + length])
                at += length
            assert stream.finish() == whole, f"in pieces of up to {longest} characters {text!r} gives another result"

    def test_feed_hands_each_attempt_out_once(self) -> None:
        """`feed` returns attempts in their order, each once, before the text ends where they are whole."""
        for text in self._texts:
            stream = self._parser.stream(self._tools)
            given = [attempt for char in text for attempt in stream.feed(char)]
            final = list(stream.finish().calls)
            assert given == final[: len(given)] or stream.finish().reasoning is not None, f"feed differs for {text!r}"

    def test_rendered_calls_are_read(self) -> None:
        """What `render` writes is read again."""
        rendered = False
        for calls in CALLS:
            text = self._parser.render(calls)
            if text is None:
                continue
            rendered = True
            reply = self._parser.parse(text, tools_of(calls))
            read = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
            assert all(call.status is CallStatus.OK for call in reply.calls), f"{text!r} gives {reply.calls}"
            assert same_json(read, list(calls)), f"{text!r} is read as {read}"
        if not rendered:
            raise SkipTest("the parser does not render")

    def test_tools_that_are_not_offered_are_no_calls(self) -> None:
        """A call of a tool that was not offered is reported and is not `OK`."""
        for calls in CALLS:
            text = self._parser.render(calls)
            if text is not None:
                found = self._parser.parse(text, []).calls
                assert found, f"{text!r} holds calls, and none is reported"
                assert all(call.status is not CallStatus.OK for call in found), found

    def test_a_cut_reply_loses_nothing(self) -> None:
        """Cut anywhere, a call is reported until nothing but its first tag is left; it is never `OK` before it is."""
        for calls in CALLS:
            text = self._parser.render(calls)
            if text is None:
                continue
            tools = tools_of(calls)
            whole = self._parser.parse(text, tools)
            seen = 0
            for end in range(len(text)):
                found = self._parser.parse(text[:end], tools).calls
                assert len(found) >= min(seen, 1), f"the attempt is lost when {text!r} is cut at {end}"
                seen = max(seen, len(found))
                for cut, call in zip(found, whole.calls, strict=False):
                    assert cut.status is not CallStatus.OK or same_json(cut.arguments, call.arguments), (
                        f"{text[:end]!r} is cut, and yet gives {cut}"
                    )

    def test_work_is_linear(self) -> None:
        """Four times the text takes at most about four times the steps (of a parser made with the kit)."""
        for unit in (*_PIECES, *self._texts):
            steps: list[int] = []
            for size in (20_000, 80_000):
                stream = self._parser.stream(self._tools)
                if not isinstance(stream, ScanningStream):
                    raise SkipTest("steps are counted only of parsers made with agent_env.plugin.parsing")
                stream.feed(unit * (size // len(unit)))
                stream.finish()
                steps.append(stream.cursor.steps)
            assert steps[1] <= 5 * steps[0] + 1000, (
                f"{unit!r} repeated takes {steps[0]} steps, four times it {steps[1]}"
            )

    def test_threads_share_it(self) -> None:
        """One parser serves several threads."""
        texts = list(self._mixed(60))
        expected = [self._parser.parse(text, self._tools) for text in texts]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(self._parser.parse, texts, [self._tools] * len(texts)))
        assert found == expected, "in threads the results differ"

    # -- what the checks work on --------------------------------------------------------------------------------------

    @property
    def _parser(self) -> ToolCallParser:
        if isinstance(self.case.parser, ToolCallParser):
            return self.case.parser
        from agent_env.registry import default_registry

        loaded: ToolCallParser = default_registry().load("parser", self.case.parser)()
        return loaded

    @property
    def _tools(self) -> list[Mapping[str, Any]]:
        return [*self.case.tools, *tools_of([call for calls in CALLS for call in calls])]

    @property
    def _texts(self) -> list[str]:
        rendered = [text for text in (self._parser.render(calls) for calls in CALLS) if text is not None]
        texts = [*self.case.texts, *rendered]
        if not texts:
            raise SkipTest("the parser does not render: give ParserCase(..., texts=[...])")
        return texts

    def _mixed(self, rounds: int = _ROUNDS) -> Iterator[str]:
        """The texts, and texts made from them: cut, glued, with pieces put in and taken out."""
        texts = self._texts
        yield from texts
        dice = random.Random(1)  # noqa: S311 - a test's data
        for _ in range(rounds):
            text = "".join(dice.choice(texts) for _ in range(dice.randint(1, 2)))
            for _ in range(dice.randint(0, 3)):
                at = dice.randint(0, len(text))
                text = text[:at] + dice.choice(_PIECES) + text[at + dice.choice((0, 0, 1, 3, 12)) :]
            yield text[: dice.randint(0, 2 * len(text))]

    def _check_report(self, text: str, reply: ParsedReply) -> None:
        at = 0
        outside: list[str] = []
        for call in reply.calls:
            start, end = call.span
            assert at <= start <= end <= len(text), f"the spans of {text!r} overlap or leave it: {reply.calls}"
            assert text[start:end] == call.raw, f"raw is not the text of the span in {text!r}"
            outside.append(text[at:start])
            at = end
            assert call.status is not CallStatus.OK or (call.name and call.arguments is not None), call
            assert call.arguments is None or _is_json(call.arguments), f"arguments are no JSON: {call.arguments!r}"
        rest = iter("".join([*outside, text[at:]]))
        assert all(char in rest for char in reply.content), f"content of {text!r} stands in a call or nowhere: {reply}"
        assert reply.content == reply.content.strip(), f"content keeps outer white space: {reply.content!r}"


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, float) or math.isfinite(value)
