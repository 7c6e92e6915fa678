"""The reward function: it only reads what `run` left in the sample's metadata."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


async def reward(args: Any, samples: Any, **kwargs: Any) -> float | list[float]:
    """The reward of a sample, or those of a list of samples (``[]`` for ``[]``).

    A sample without a verdict gets the placeholder 0.0; the filters drop its group.
    """
    del args, kwargs
    if isinstance(samples, (list, tuple)):
        return [sample_reward(sample) for sample in cast("Sequence[object]", samples)]
    return sample_reward(samples)


def sample_reward(sample: object) -> float:
    """The finite reward of one sample, 0.0 when it has none."""
    value = metadata_of(sample).get("reward")
    number = finite(value)
    return 0.0 if number is None else number


def metadata_of(sample: object) -> dict[str, Any]:
    """A sample's metadata, ``{}`` when it has none; never raises."""
    try:
        metadata = getattr(sample, "metadata", None)
    except Exception:  # noqa: BLE001  a property of a foreign object may do anything
        return {}
    return cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}


def finite(value: object) -> float | None:
    """``value`` as a finite float, `None` when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
