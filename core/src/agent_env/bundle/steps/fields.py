"""Types that the step models share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

T = TypeVar("T")

Aggregator = Literal["all_pass", "any_pass", "weighted_average"]


class Part(BaseModel):
    """A part of a step: strict, frozen, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _listed(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _not_played(value: object) -> object:
    if value is None or value is False:
        return value
    raise ValueError("is a feature of the format that AgentEnv does not play; remove it")


def _no_items(value: object) -> object:
    return None if value == [] else _not_played(value)


Many = Annotated[tuple[T, ...], BeforeValidator(_listed)]
"""A JSON list, kept as a tuple."""

Text = Annotated[str, Field(strict=True, min_length=1)]
"""A string that is not empty."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number above 0, whole or not."""

Version = StrictStr | int | None
"""Version of an entity in a store; the entities of a bundle have none."""

NotPlayed = Annotated[Any, AfterValidator(_not_played)]
"""A field of the format that is refused by name when it is set."""

NoItems = Annotated[Any, AfterValidator(_no_items)]
"""As `NotPlayed`, for a list that asks for nothing when it is empty."""
