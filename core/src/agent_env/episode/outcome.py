"""What an episode gives to the one who plays it: turns, then one outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_env.errors import AgentEnvError

if TYPE_CHECKING:
    from agent_env.errors import Failure
    from agent_env.plugin.reward import EpisodeFacts


class UnknownTool(AgentEnvError):
    """The model called a tool that the episode does not have: the model's mistake, the episode goes on."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the agent: it may call tools until it ends the turn.

    Attributes:
        number: counted from 1.
        prompt: what the agent is asked.
        system_prompt: the system prompt in force, or `None`.
        prompt_id: the prompt's id, by which verifiers find the reply.
    """

    number: int
    prompt: str
    system_prompt: str | None
    prompt_id: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an episode: scored or failed, never both.

    Attributes:
        reward: a finite number, or `None` when the episode failed.
        scores: by id of the scoring step; what was recorded before a failure stays.
        failure: why there is no reward, or `None`.
        facts: what a reward combiner may know.
        timings: seconds: ``deploy_s`` (deploying, loading and configuring, added up over the steps), ``tools_s``
            (tool calls), ``verifier_s`` (scoring steps).
    """

    reward: float | None
    scores: dict[str, float]
    failure: Failure | None
    facts: EpisodeFacts
    timings: dict[str, float] = field(default_factory=dict[str, float])
