"""The docstring from which transformers reads a tool's description and those of its parameters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A heading of the docstring format ends the text before it, wherever it stands; in lower case it is plain text.
_HEADING = re.compile(r"(Args|Returns|Raises):")
_CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)
_LINES = re.compile(r"\s*\n\s*")


def docstring(description: str, rules: Mapping[str, Any], parameters: Sequence[tuple[str, str]]) -> str:
    """A tool's docstring.

    Args:
        description: the tool's description.
        rules: keys of the arguments' schema that parameters alone do not say, ``$defs`` among them.
        parameters: name and text of each.
    """
    parts = [plain(description)]
    if rules:
        parts.append(_rules(rules))
    text = "\n\n".join(part for part in parts if part) or "A tool without a description."
    lines = [f"    {name}: {words}" for name, words in parameters]
    # The last heading stands at the left edge, so that the description keeps its indentation; it shows nothing.
    return "\n".join([text, "", *(["Args:", *lines, ""] if lines else []), "Returns:", "    The answer."])


def parameter_text(name: str, description: str, left: Mapping[str, Any], *, called: str | None) -> str:
    """A parameter's description, on one line, with what its type does not say.

    Args:
        name: the parameter, as the tool's schema names it.
        description: from the schema.
        left: keys of the schema that the type does not say.
        called: the name that the model sees, where it is another.
    """
    rest = {key: value for key, value in left.items() if not (key == "title" and is_auto_title(name, value))}
    default = rest.pop("default", _NONE)
    text = _LINES.sub(" ", plain(description))
    said = [text] if text else []
    if called is not None:
        said.append(f"Stands for {_json(name)}.")
    if default is not _NONE:
        said.append(f"Default: {_json(default)}.")
    if rest:
        said.append(f"JSON Schema: {_json(rest)}.")
    words = plain(" ".join(said)) or name
    return f"{words}." if _CHOICES.search(words) else words


def plain(text: str) -> str:
    """``text`` without headings of the docstring format, and without tabs, which are expanded otherwise."""
    return _HEADING.sub(lambda match: match[0].lower(), text).expandtabs().strip()


def is_auto_title(name: str, title: object) -> bool:
    """Whether a title only repeats the parameter's name, as schema generators write it."""
    return isinstance(title, str) and title.lower() == name.replace("_", " ").lower()


def _rules(rules: Mapping[str, Any]) -> str:
    rest = dict(rules)
    words: list[str] = []
    if rest.get("additionalProperties") is False:
        del rest["additionalProperties"]
        words.append("No other arguments.")
    if rest:
        words.append(f"JSON Schema of the arguments: {_json(rest)}.")
    return plain(" ".join(words))


def _json(value: object) -> str:
    """JSON on one line, without a heading in it."""
    return _HEADING.sub(lambda match: f"{match[1]}\\u003a", json.dumps(value, ensure_ascii=False))


_NONE = object()
