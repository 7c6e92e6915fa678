"""The verifier of the agent's replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.bundle.steps.criteria import ResponseContains
from agent_env.episode.matching import found
from agent_env.episode.rows import judged, record

if TYPE_CHECKING:
    from agent_env.bundle.steps.verify import AgentPromptResponseVerifier
    from agent_env.episode.run import EpisodeRun


async def run_agent_prompt_response_verifier(step: AgentPromptResponseVerifier, episode: EpisodeRun) -> None:
    """Score the reply to the prompt."""
    text = episode.reply_to(step.prompt_id).text
    rows: list[dict[str, Any]] = []
    for criterion in step.criteria:
        if isinstance(criterion, ResponseContains):
            missing = [needle for needle in criterion.needles if needle not in text]
            why = f"missing: {', '.join(map(repr, missing))}" if missing else "the reply contains every needle"
            rows.append(judged(criterion, not missing, why))
        else:
            timeout = episode.remaining(episode.services.verifier_timeout)
            matches = await found(criterion.regex(), text, timeout)
            why = f"the reply {'matches' if matches else 'does not match'} {criterion.pattern!r}"
            rows.append(judged(criterion, matches, why))
    record(episode, step, rows)
