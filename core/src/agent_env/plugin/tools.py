"""Tools and their results, as every part of AgentEnv passes them on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may call.

    Attributes:
        name: unique among the tools of an episode.
        description: what the model reads; ``""`` when there is none.
        input_schema: JSON Schema of the arguments, an object schema.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]

    def openai(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.input_schema),
            },
        }


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered.

    Attributes:
        content: MCP content parts (``{"type": "text", "text": ...}``, ``{"type": "image", ...}``).
        structured: MCP ``structuredContent``, or `None`.
        is_error: the tool says that it failed; a model's mistake, not an env failure.
        meta: MCP ``_meta``, or `None`.
    """

    content: Sequence[Mapping[str, Any]] = ()
    structured: Any = None
    is_error: bool = False
    meta: Mapping[str, Any] | None = field(default=None)

    @property
    def text(self) -> str:
        """The text parts, joined by newlines."""
        return "\n".join(str(part["text"]) for part in self.content if part.get("type") == "text")
