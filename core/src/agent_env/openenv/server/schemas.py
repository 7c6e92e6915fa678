"""JSON Schemas of actions, observations and states, as ``/schema`` and ``/openapi.json`` show them."""

from __future__ import annotations

from typing import Any, Final

_OBJECT: Final[dict[str, Any]] = {"type": "object"}
_NULLABLE_OBJECT: Final[dict[str, Any]] = {"anyOf": [{"type": "object"}, {"type": "null"}]}
_METADATA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Additions; `agentenv` holds timeout_s (seconds), invalid_calls, truncated.",
}

CALL_TOOL: Final[dict[str, Any]] = {
    "title": "CallTool",
    "type": "object",
    "properties": {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string", "description": "A tool of the task, or end_turn."},
        "arguments": {"type": "object", "default": {}},
        "metadata": _METADATA,
    },
    "required": ["tool_name"],
    "additionalProperties": False,
}

LIST_TOOLS: Final[dict[str, Any]] = {
    "title": "ListTools",
    "type": "object",
    "properties": {"type": {"const": "list_tools"}, "metadata": _OBJECT},
    "required": ["type"],
    "additionalProperties": False,
}

ACTION: Final[dict[str, Any]] = {"title": "Action", "type": "object", "anyOf": [CALL_TOOL, LIST_TOOLS]}

OBSERVATION: Final[dict[str, Any]] = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "metadata": _OBJECT,
        "tool_name": {"type": "string"},
        "result": _NULLABLE_OBJECT,
        "error": _NULLABLE_OBJECT,
        "tools": {"type": "array", "items": _OBJECT},
        "done": {"type": "boolean", "default": False},
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
    },
}

RESET_OBSERVATION: Final[dict[str, Any]] = {
    "title": "ResetObservation",
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                "prompt": {"type": "string"},
                "system_prompt": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "task": _OBJECT,
            },
        },
        "done": {"type": "boolean", "default": False},
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
    },
}

STATE: Final[dict[str, Any]] = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
        "task": _NULLABLE_OBJECT,
        "done": {"type": "boolean"},
    },
    "additionalProperties": True,
}

RESET_BODY: Final[dict[str, Any]] = {
    "title": "Reset",
    "type": "object",
    "properties": {
        "split": {"type": "string"},
        "index": {"type": "integer", "minimum": 0},
        "seed": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "episode_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]},
        "timeout_s": {"type": "number", "exclusiveMinimum": 0},
    },
}

STEP_BODY: Final[dict[str, Any]] = {
    "title": "Step",
    "type": "object",
    "properties": {
        "action": ACTION,
        "timeout_s": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
        "request_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]},
        "split": {"type": "string"},
        "index": {"type": "integer", "minimum": 0},
        "seed": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "episode_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]},
    },
    "required": ["action"],
}


def body_of(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """The OpenAPI entry of a request body."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
