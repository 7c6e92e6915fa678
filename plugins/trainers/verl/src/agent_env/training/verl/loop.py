"""The agent loop that verl makes for each row; `agent_env.training.verl.CONFIG` names it."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any
from uuid import uuid4

from agent_env.errors import UsageError
from agent_env.training.verl.failures import OnFailure, check_on_failure, is_scored
from agent_env.training.verl.loop_engine import LoopEngine
from agent_env.training.verl.output import output_fields
from agent_env.training.verl.play import play
from agent_env.training.verl.row import read_row

from verl.experimental.agent_loop.agent_loop import (  # type: ignore[import-not-found]
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)


class BundleAgentLoop(AgentLoopBase):
    """Plays a row's task as one episode of its bundle's server, in tokens throughout.

    Args:
        args: as verl passes them.
        on_infra_failure: ``raise`` or ``drop``, what an episode without a score becomes.
        kwargs: as verl passes them.

    Raises:
        UsageError: ``on_infra_failure`` is none of them.
    """

    def __init__(self, *args: Any, on_infra_failure: str = "raise", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_failure: OnFailure = check_on_failure(on_infra_failure)

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> Any:
        """Play one episode.

        Returns:
            verl's ``AgentLoopOutput`` with the reward; ``[]`` for an episode that is dropped.

        Raises:
            EpisodeFailed: the episode has no score, and failures are raised.
            UsageError: the row is none of ours, or its prompt does not fit.
        """
        columns = read_row(row)
        rollout = self.rollout_config
        deterministic = bool(rollout.get("full_determinism", False))
        engine = LoopEngine(
            self,
            sampling_params,
            f"det-{int(priority)}" if deterministic else uuid4().hex,
            priority=int(priority),
            verl_parser=None if columns.parser else str(rollout.multi_turn.format),
        )
        room = int(rollout.response_length)
        result, model = await play(
            columns,
            engine,
            room=room,
            max_model_len=rollout.get("max_model_len"),
            max_turns=rollout.multi_turn.get("max_assistant_turns"),
        )
        # Only the v1 workers, which number the sessions of a group, can leave an episode out.
        on_failure: OnFailure = self._on_failure if "session_id" in row else "raise"
        if not is_scored(result, sum(model.tokens.mask), f"rollout of {columns.task_id!r}", on_failure):
            return []
        fields = output_fields(result, model, room, columns.task_id)
        return AgentLoopOutput(**{**fields, "metrics": AgentLoopMetrics(**fields["metrics"])})

    def _cap_text_prompt_length(self, prompt_ids: list[int]) -> list[int]:
        """Refuse a long prompt, which verl cuts from the left: half a task is none."""
        most = int(self.rollout_config.prompt_length)
        if len(prompt_ids) > most:
            raise UsageError(
                f"the prompt has {len(prompt_ids)} tokens with its tools, more than data.max_prompt_length "
                f"({most}): raise that, or leave such rows out"
            )
        return prompt_ids
