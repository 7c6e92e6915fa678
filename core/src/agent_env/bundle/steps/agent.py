"""Steps of the played agent."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from agent_env.bundle.steps.fields import Many, NoItems, NotPlayed, Positive, Text, Version  # noqa: TC001, TC002 pydantic reads them
from agent_env.plugin.step import StepModel
from pydantic import AfterValidator, Field

DEFAULT_AGENT: Final = "default-agent"


def _one_conversation_turn(value: int) -> int:
    if value != 1:
        raise ValueError("a simulated user is a feature of the format that AgentEnv does not play; use 1")
    return value


class DeployAgent(StepModel):
    """Gives the played agent its envs. Nothing is deployed: the model that is trained is the agent."""

    fields_without_meaning: ClassVar[frozenset[str]] = frozenset(
        {
            "a2a_agent_id",
            "a2a_agent_version",
            "agent_changelog_toolcall_position_exclusive",
            "agent_description",
            "agent_snapshot_files_artifact_version",
            "agent_snapshot_target_context_id",
            "litellm_base_url",
            "metadata",
            "network_policy",
        }
    )

    env_ids: Many[Text] | None = None
    env_step_id: Text | None = None
    a2a_agent_id: Text | None = None
    a2a_agent_version: Version = None
    agent_name: Text | None = None
    agent_description: str | None = None
    env_vars: dict[str, str] | None = None
    skills: NoItems = None
    system_prompt: str | None = None
    disk_size_gb: Positive | None = None
    litellm_base_url: str | None = None
    sandbox_type: Text | None = None
    ttl_seconds: Positive | None = None
    cpu: Positive | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    agent_snapshot_files_artifact_id: NotPlayed = None
    agent_snapshot_files_artifact_version: Version = None
    agent_snapshot_target_context_id: str | None = None
    network_policy: Any = None
    role: Text | None = None
    enable_agent_changelog: NotPlayed = False
    agent_changelog_toolcall_position_exclusive: int | None = None
    sandbox_name: Text | None = None
    enable_docker: NotPlayed = False
    metadata: dict[str, Any] | None = None
    agent_changelog_object_url: NotPlayed = None

    @property
    def agent(self) -> str:
        """Name by which other steps call the agent."""
        return self.agent_name or DEFAULT_AGENT


class PromptAgent(StepModel):
    """Opens a turn of the played agent. Several of them are several turns of one conversation."""

    prompts: ClassVar[bool] = True
    fields_without_meaning: ClassVar[frozenset[str]] = frozenset(
        {
            "effort",
            "harness",
            "live_trajectory",
            "max_thinking_tokens",
            "max_turns",
            "model",
            "model_params",
            "poll_interval_seconds",
            "timeout_seconds",
            "trajectory_output_prefix",
            "user_agent_name",
            "user_agent_timeout_seconds",
            "user_model",
            "user_output_format",
        }
    )

    prompt: Text
    parts: NoItems = None
    prompt_id: Text | None = None
    agent_name: Text | None = None
    timeout_seconds: Positive = 600
    trajectory_output_prefix: str | None = None
    model: str | None = None
    model_params: dict[str, Any] | None = None
    system_prompt: str | None = None
    max_turns: Annotated[int, Field(gt=0)] | None = None
    output_format: NotPlayed = None
    max_thinking_tokens: int | None = None
    effort: str | None = None
    harness: str | None = None
    agentenv_tools: NotPlayed = None
    poll_interval_seconds: Positive = 2
    context_id: Text | None = None
    max_conversation_turns: Annotated[int, AfterValidator(_one_conversation_turn)] = 1
    user_agent_name: str = "human_agent"
    user_a2a_url: NotPlayed = None
    user_agent_timeout_seconds: Positive = 600
    user_output_format: Any = None
    user_model: str | None = None
    snapshot_config: NotPlayed = None
    live_trajectory: bool = False

    @property
    def agent(self) -> str:
        """Name of the prompted agent."""
        return self.agent_name or DEFAULT_AGENT

    @property
    def turn_id(self) -> str:
        """Id by which verifiers name this prompt: ``prompt_id``, else the step's id."""
        return self.prompt_id or self.id
