"""Annotations that pydantic understands, when the env's author uses it. Nothing here imports pydantic by itself."""

from __future__ import annotations

import json
import sys
from typing import Any, Protocol, cast, get_args

from agent_env.env.types.kind import Kind, Reading


class _Adapter(Protocol):
    def json_schema(self) -> dict[str, Any]: ...

    def validate_json(self, data: str, /, *, strict: bool) -> Any: ...


def is_pydantic(annotation: Any) -> bool:
    """Whether the annotation holds a pydantic model or a pydantic ``Field``."""
    if "pydantic" not in sys.modules:
        return False
    if isinstance(annotation, type) and hasattr(annotation, "__pydantic_core_schema__"):
        return True
    if type(annotation).__module__.split(".")[0] == "pydantic":
        return True
    return any(is_pydantic(arg) for arg in (*get_args(annotation), *getattr(annotation, "__metadata__", ())))


def pydantic_kind(annotation: Any) -> Kind:
    """A kind that leaves schema and check to pydantic."""
    pydantic = cast("Any", sys.modules["pydantic"])
    return PydanticKind(cast("_Adapter", pydantic.TypeAdapter(annotation)), pydantic.ValidationError)


class PydanticKind(Kind):
    def __init__(self, adapter: _Adapter, error: type[Exception]) -> None:
        self._adapter = adapter
        self._error = error
        self._schema = adapter.json_schema()
        self.defs: dict[str, Any] = self._schema.pop("$defs", {})
        self.expected = f"what its schema says ({self._schema.get('title') or self._schema.get('type', 'value')})"

    def schema(self) -> dict[str, Any]:
        return self._schema

    def read(self, value: object, where: str, reading: Reading) -> Any:
        try:
            # Strict JSON mode: text is no number, but a date is text, as JSON has it.
            return self._adapter.validate_json(json.dumps(value), strict=not reading.lax)
        except self._error as error:
            for item in cast("Any", error).errors(include_url=False, include_context=False):
                path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
                reading.problems.append(f"{where}{path}: {item['msg']}")
            return value
