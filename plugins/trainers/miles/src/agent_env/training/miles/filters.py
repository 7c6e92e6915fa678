"""Which groups Miles may train on.

Miles takes one filter path, calls it synchronously with groups of ``Sample`` or of lists of samples, aborted ones
included, and dies by its exceptions: these never raise and return a plain bool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.training.miles.reward import finite, metadata_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPREAD = 1e-8


def keep_scored_groups(args: Any, samples: Any, **kwargs: Any) -> bool:
    """Keep a group whose samples were all scored; drop it for one aborted, unscored, flagged or missing sample."""
    del kwargs
    return not drop_reason(args, samples)


def keep_trainable_groups(args: Any, samples: Any, **kwargs: Any) -> bool:
    """As `keep_scored_groups`, and drop groups whose rewards do not vary; a group of one is kept."""
    del kwargs
    return not (drop_reason(args, samples) or zero_spread_reason(args, samples))


def keep_scored_groups_counted(args: Any, samples: Any, **kwargs: Any) -> Any:
    """As `keep_scored_groups`; where Miles is importable its own filter output, so that drops are counted by reason."""
    del kwargs
    reason = drop_reason(args, samples)
    return output(keep=not reason, reason=reason)


def output(*, keep: bool, reason: str = "") -> Any:
    """Miles' ``DynamicFilterOutput`` when it can be imported, else the bool."""
    try:
        from miles.rollout.filter_hub.base_types import (  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
            DynamicFilterOutput,  # pyright: ignore[reportUnknownVariableType]
        )

        return DynamicFilterOutput(keep=keep, reason=reason or None)  # pyright: ignore[reportUnknownVariableType]
    except Exception:  # noqa: BLE001  whatever is wrong with the import, the verdict stands
        return keep


def drop_reason(args: Any, samples: Any) -> str:
    """Why a group must not be trained on, ``""`` when it may; short, since Miles makes a metric's name of it."""
    try:
        return _drop_reason(args, samples)
    except Exception:  # noqa: BLE001  the rollout dies by an exception here
        return "unreadable"


def _drop_reason(args: Any, samples: Any) -> str:
    if not isinstance(samples, (list, tuple)):
        return "missing"
    group = cast("list[object]", samples)
    expected = _expected(args)
    if not group or (expected is not None and len(group) < expected):
        return "missing"
    for element in group:
        members = list(_members(element))
        if not members:
            return "missing"
        for sample in members:
            reason = _sample_reason(args, sample)
            if reason:
                return reason
    return ""


def _members(element: object) -> Iterator[object]:
    """The samples of one element of a group: itself, or those of a list, however deep."""
    stack = [element]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(cast("list[object]", item)))
        else:
            yield item


def _expected(args: Any) -> int | None:
    value: object = getattr(args, "n_samples_per_prompt", None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sample_reason(args: Any, sample: object) -> str:
    if sample is None:
        return "missing"
    metadata = metadata_of(sample)
    if metadata.get("agentenv_failure") is not None:
        return "failed_" + _kind(metadata["agentenv_failure"])
    if _status(sample) in {"aborted", "failed"}:
        return "aborted"
    if finite(metadata.get("reward")) is None or reward_value(args, sample) is None:
        return "unscored"
    return ""


def reward_value(args: Any, sample: object) -> float | None:
    """The reward that Miles would train on: with ``--reward-key`` an entry of a dict."""
    value: object = getattr(sample, "reward", None)
    key: object = getattr(args, "reward_key", None)
    if key and isinstance(value, dict):
        value = cast("dict[object, object]", value).get(key)
    return finite(value)


def _kind(failure: object) -> str:
    kind = str(failure).partition(":")[0]
    return kind if kind.isidentifier() and len(kind) <= 20 else "unknown"


def _status(sample: object) -> str:
    status: object = getattr(sample, "status", None)
    return str(getattr(status, "value", status)).lower()


def zero_spread_reason(args: Any, samples: Any) -> str:
    """``"zero_std_<reward>"`` when a group of several has only one reward, else ``""``; never raises."""
    try:
        rewards = [
            number
            for element in cast("list[object]", samples)
            for sample in _members(element)
            if (number := reward_value(args, sample)) is not None
        ]
        if len(cast("list[object]", samples)) > 1 and rewards and max(rewards) - min(rewards) <= _SPREAD:
            return f"zero_std_{round(rewards[0], 1)}"
        return ""
    except Exception:  # noqa: BLE001
        return "unreadable"
