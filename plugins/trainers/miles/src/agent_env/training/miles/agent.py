"""The functions that Miles loads by name.

``--custom-agent-function-path agent_env.training.miles.agent.run``
``--custom-rm-path agent_env.training.miles.agent.reward``
``--dynamic-sampling-filter-path agent_env.training.miles.agent.keep_scored_groups`` (or a stricter one from here)

Miles finds `abort` beside `run` by itself. Importing this module is light: HTTP and WebSocket libraries are imported
by the first rollout.
"""

from __future__ import annotations

import logging
from typing import Any

from agent_env.training.miles.filters import keep_scored_groups, keep_scored_groups_counted, keep_trainable_groups
from agent_env.training.miles.reward import reward
from agent_env.training.miles.run import abort_rollouts, run_rollout

__all__ = ["abort", "keep_scored_groups", "keep_scored_groups_counted", "keep_trainable_groups", "reward", "run"]

_log = logging.getLogger(__name__)


async def run(
    base_url: str, prompt: Any, request_kwargs: dict[str, Any], metadata: dict[str, Any], **kwargs: Any
) -> dict[str, Any]:
    """Play the row's task as one episode, with the model behind the session at ``base_url``.

    Args:
        base_url: the session's address, without ``/v1``.
        prompt: the row's messages; copied.
        request_kwargs: sampling fields of every chat request.
        metadata: the row's metadata, ``tools`` included.
        kwargs: for what later versions of Miles may pass; ignored.

    Returns:
        ``reward`` and its details, JSON throughout; a rollout that failed has ``agentenv_failure``
        (``"<kind>: <message>"``) and the placeholder reward 0.0. It never raises but for a cancellation from
        outside, and then only after the episode was torn down.
    """
    del kwargs
    return await run_rollout(base_url, prompt, request_kwargs, metadata)


async def abort(args: Any) -> None:
    """End every rollout under way, as Miles asks when it has enough samples; each returns a flagged dict."""
    del args
    ended = await abort_rollouts("the trainer ended the rollout")
    if ended:
        _log.info("ended %d rollouts", ended)
