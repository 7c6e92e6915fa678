"""What the step does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_env.plugin.step import EpisodeContext

    from __MODULE__.model import __CLASS__

TIMEOUT = 60.0


async def run(step: __CLASS__, episode: EpisodeContext) -> None:
    """Call the tool and record the score.

    What the env raises is left to rise: a dead env fails the episode, it is never a score of 0.
    """
    result = await episode.env(step.env_id).call_tool(step.tool, step.arguments, timeout=TIMEOUT)
    passed = not result.is_error and step.contains in result.text
    episode.record_score(step.id, 1.0 if passed else 0.0, [{"id": step.id, "result": passed}])
