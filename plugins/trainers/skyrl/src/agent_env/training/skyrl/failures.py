"""Failed rollouts in a generator's output: their groups are masked and their rewards say nothing.

Plain data, as SkyRL's ``GeneratorOutput`` is; nothing here needs SkyRL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OnFailure = Literal["mask", "raise"]
ERROR: Final = "error"
"""The stop reason of a failed rollout."""
_GRID: Final = 2.0**20


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rollout each row of an output belongs to; with step-wise trajectories a rollout has several.

    Attributes:
        owners: by row, the place of its rollout in the input.
        last: by row, whether it is its rollout's last.
    """

    owners: tuple[int, ...]
    last: tuple[bool, ...]

    @classmethod
    def of(cls, output: Mapping[str, Any]) -> Rows:
        """The rows of ``output``."""
        count = len(output["response_ids"])
        flags = output.get("is_last_step")
        if flags is None:
            return cls(tuple(range(count)), (True,) * count)
        owners: list[int] = []
        owner = 0
        for flag in flags:
            owners.append(owner)
            owner += bool(flag)
        return cls(tuple(owners), tuple(bool(flag) for flag in flags))


def failed_rollouts(output: Mapping[str, Any], rows: Rows) -> set[int]:
    """Places in the input of the rollouts that have no reward."""
    reasons = cast("Sequence[str]", output["stop_reasons"])
    return {rows.owners[row] for row, reason in enumerate(reasons) if reason == ERROR}


def group_keys(batch: Mapping[str, Any]) -> list[str]:
    """The group of each rollout of an input: its trajectory's instance, else its task."""
    ids = batch.get("trajectory_ids")
    if ids is not None:
        return [str(item.instance_id) for item in ids]
    extras = cast("Sequence[Mapping[str, Any]]", batch["env_extras"])
    return [repr([item.get(key) for key in ("agentenv", "split", "index", "seed")]) for item in extras]


def mask_groups(output: dict[str, Any], rows: Rows, groups: Sequence[str], failed: set[int]) -> set[str]:
    """Mask every row of a group that holds a failed rollout; returns the groups.

    All rollouts of such a group get one and the same reward, the mean of the scored ones among them, or where there is
    none that of all scored ones: so they have no advantage, filters for groups without variance drop them, and the
    mean reward is that of scored rollouts alone.
    """
    hit = {groups[owner] for owner in failed}
    if not hit:
        return hit
    totals: dict[int, float] = {}
    for row, owner in enumerate(rows.owners):
        totals[owner] = totals.get(owner, 0.0) + _total(output["rewards"][row])
    scored = {owner: total for owner, total in totals.items() if owner not in failed}
    overall = _mean(list(scored.values()))
    levels = {
        group: _mean([total for owner, total in scored.items() if groups[owner] == group], overall) for group in hit
    }
    masks, rewards = list(output["loss_masks"]), list(output["rewards"])
    for row, owner in enumerate(rows.owners):
        if groups[owner] in hit:
            masks[row] = [0] * len(masks[row])
            rewards[row] = _worded(rewards[row], levels[groups[owner]] if rows.last[row] else 0.0)
    output["loss_masks"], output["rewards"] = masks, rewards
    return hit


def fill_experts(output: dict[str, Any], rows: Rows, failed: set[int]) -> None:
    """Give failed rollouts the routed experts that an output has for every token, all of them expert 0."""
    experts = output.get("rollout_expert_indices")
    if experts is None:
        return
    sample = next((item[0] for item in experts if item), None)
    if sample is None:
        output["rollout_expert_indices"] = None
        return
    nothing = [[0] * len(layer) for layer in sample]
    for row, owner in enumerate(rows.owners):
        if owner in failed:
            count = len(output["prompt_token_ids"][row]) + len(output["response_ids"][row])
            experts[row] = [nothing] * count


def _total(reward: object) -> float:
    return sum(cast("list[float]", reward)) if isinstance(reward, list) else float(cast("float", reward))


def _mean(values: Sequence[float], default: float = 0.0) -> float:
    # On a grid, so that the deviation of equal rewards is exactly 0.
    return round(sum(values) / len(values) * _GRID) / _GRID if values else default


def _worded(reward: object, value: float) -> object:
    """``value`` in the form of ``reward``: a number, or one for each token with the value at the last."""
    if isinstance(reward, list):
        return [0.0] * (len(cast("list[float]", reward)) - 1) + [value]
    return value
