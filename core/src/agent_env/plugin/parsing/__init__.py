"""A kit for authors of tool-call parsers; standard library only.

A parser is one generator that walks over a `Cursor` and reports to a `Reply`; it gives control back where it needs
more text. Parsing a whole text and parsing it in pieces are the same walk, so the result cannot depend on the cuts.
"""

from agent_env.plugin.parsing.base import ScanningParser
from agent_env.plugin.parsing.calls import read_arguments_text, read_call_object, read_cut
from agent_env.plugin.parsing.cursor import Cursor, Scan, Tags, Token
from agent_env.plugin.parsing.foreign import FOREIGN_TAGS, foreign_block, take_wrapper
from agent_env.plugin.parsing.jsoncall import JsonCallTags, scan_json_call
from agent_env.plugin.parsing.jsonscan import find_outside_strings, find_value_end, scan_scalar
from agent_env.plugin.parsing.jsonvalue import NotJson, decode_json
from agent_env.plugin.parsing.render import reads_again, render_value
from agent_env.plugin.parsing.reply import Reply
from agent_env.plugin.parsing.schema import decode_value
from agent_env.plugin.parsing.tagged import TaggedCall, ValueTags, scan_value, tag_rest
from agent_env.plugin.parsing.tagparser import TagParser
from agent_env.plugin.parsing.tools import ToolTable
from agent_env.plugin.parsing.walk import BlockParser, cut_section, scan_section

__all__ = [
    "FOREIGN_TAGS",
    "BlockParser",
    "Cursor",
    "JsonCallTags",
    "NotJson",
    "Reply",
    "Scan",
    "ScanningParser",
    "TagParser",
    "TaggedCall",
    "Tags",
    "Token",
    "ToolTable",
    "ValueTags",
    "cut_section",
    "decode_json",
    "decode_value",
    "find_outside_strings",
    "find_value_end",
    "foreign_block",
    "read_arguments_text",
    "read_call_object",
    "read_cut",
    "reads_again",
    "render_value",
    "scan_json_call",
    "scan_scalar",
    "scan_section",
    "scan_value",
    "tag_rest",
    "take_wrapper",
]
