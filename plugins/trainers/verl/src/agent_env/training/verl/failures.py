"""What becomes of an episode without a score: never a reward."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal

from agent_env.errors import EpisodeFailed, Failure, UsageError

if TYPE_CHECKING:
    from agent_env.rollout.result import Result

OnFailure = Literal["raise", "drop"]
ON_FAILURE: Final[tuple[OnFailure, ...]] = ("raise", "drop")
_log = logging.getLogger(__name__)


def check_on_failure(value: object) -> OnFailure:
    """The setting ``on_infra_failure``.

    Raises:
        UsageError: it is none that verl can carry.
    """
    if value == "mask":
        raise UsageError(
            "on_infra_failure 'mask' does not work with verl: an all-zero mask leaves the loss, but the sample's "
            "placeholder reward still enters the group's baseline; use 'raise' or 'drop'"
        )
    for known in ON_FAILURE:
        if value == known:
            return known
    raise UsageError(f"on_infra_failure must be one of {', '.join(ON_FAILURE)}, got {value!r}")


def is_scored(result: Result, trained: int, where: str, on_failure: OnFailure) -> bool:
    """Whether the episode is a sample; `False` = leave it out.

    Args:
        result: the rollout.
        trained: tokens that the model wrote.
        where: names the episode in messages.
        on_failure: what a failure becomes.

    Raises:
        EpisodeFailed: it failed, and failures are raised.
    """
    if result.failure is None and result.reward is None:
        result.fail(Failure("no_reward", "the episode ended without a reward"))
    elif result.failure is None and not trained:
        result.fail(Failure("model", "the model wrote nothing: there is no token to train on"))
    if result.failure is None:
        return True
    _log.warning("%s failed: %s", where, result.failure)
    if on_failure == "raise":
        raise EpisodeFailed(result.failure)
    return False
