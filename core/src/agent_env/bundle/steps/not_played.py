"""Names of the format's built-in step types that AgentEnv refuses by name."""

from __future__ import annotations

from typing import Final

_A2A = (
    "agent_card agent_config_identity agent_mcp core_protocol install modalities peer_agents role skill_config "
    "snapshot system_prompt trajectory"
)
_OTHER = (
    "install_agent deploy_human_agent run_docker_container teardown_sandboxes add_skills collect_artifacts "
    "snapshot_env snapshot_agent_state build_mcp_cli peer_agents register_env_triggers register_agent_triggers "
    "sync_env_clock review rubrics_verifier verify_env_card verify_env_core_protocol verify_mcp_tool_schema "
    "verify_mcp_env_assessment verify_spec_conformance validation_gate_aggregator "
    "verify_universe_load_export_roundtrip combine_universe_verdicts"
)

_REFUSAL = "is a step type of the format that AgentEnv does not play"

NOT_PLAYED: Final[dict[str, str]] = dict.fromkeys(
    [*_OTHER.split(), *(f"verify_a2a_{end}" for end in _A2A.split())], _REFUSAL
)
"""Why each of them is refused, as the end of a sentence that begins with the name."""
