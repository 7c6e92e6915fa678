"""The conversation as a verifier sees it: the record that goes to the child process.

`agent_env.episode.code_runner` makes the object behind a verifier's parameter ``run`` from it: ``run.turns`` (each
with ``number``, ``message``, ``reply``), ``run.turn(n)``, ``run.firings(...)``, ``run.as_of(n)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.episode.code_runner import CONVERSATION, make_run

if TYPE_CHECKING:
    from agent_env.episode.run import EpisodeRun

__all__ = ["conversation", "make_run"]


def conversation(episode: EpisodeRun, prompt_id: str | None) -> dict[str, Any]:
    """The graded conversation: the turn of a prompt, `None` = of the last prompt.

    Raises:
        UsageError: the task asks for a prompt that was not answered.
    """
    if prompt_id is None and not episode.turns.replies:
        return {"turns": [], "unavailable": {CONVERSATION: "no prompt has been answered before the verifier ran"}}
    reply = episode.reply_to(prompt_id)
    return {"turns": [{"number": 1, "message": reply.turn.prompt, "reply": reply.text}]}
