"""The fields of the built-in step types: one file for each family, pure data.

What a step does when it runs is `agent_env.episode.steps`; a plugin adds its own types through `agentenv_steps()`.
"""

from __future__ import annotations

from typing import Final

BUILTIN: Final[dict[str, str]] = {
    "deploy_env": "agent_env.bundle.steps.deploy:DeployEnv",
    "reset_env": "agent_env.bundle.steps.deploy:ResetEnv",
    "deploy_sandbox": "agent_env.bundle.steps.deploy:DeploySandbox",
    "deploy_agent": "agent_env.bundle.steps.agent:DeployAgent",
    "prompt_agent": "agent_env.bundle.steps.agent:PromptAgent",
    "apply_server_config": "agent_env.bundle.steps.config:ApplyServerConfig",
    "modify_env_tool_access": "agent_env.bundle.steps.config:ModifyEnvToolAccess",
    "load_artifact": "agent_env.bundle.steps.load:LoadArtifact",
    "run_code": "agent_env.bundle.steps.load:RunCode",
    "env_outcome_verifier": "agent_env.bundle.steps.verify:EnvOutcomeVerifier",
    "verify_sandbox": "agent_env.bundle.steps.verify:VerifySandbox",
    "run_container_unit_tests_verifier": "agent_env.bundle.steps.unit_tests:RunContainerUnitTestsVerifier",
    "agent_prompt_response_verifier": "agent_env.bundle.steps.verify:AgentPromptResponseVerifier",
    "aggregate_verifiers": "agent_env.bundle.steps.verify:AggregateVerifiers",
}
"""Import string of the model of each step type that AgentEnv plays itself."""
