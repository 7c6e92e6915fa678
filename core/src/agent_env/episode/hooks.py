"""The step types that the core brings, by the hook that plugins use."""

from __future__ import annotations

from agent_env.plugin import StepInfo, hookimpl

_STEPS = (
    ("deploy_env", "Deploy a fresh env of the bundle", "deploy:DeployEnv", "deploy:run_deploy_env"),
    ("reset_env", "Empty an env's data", "deploy:ResetEnv", "deploy:run_reset_env"),
    ("deploy_sandbox", "Deploy a sandbox without an env", "deploy:DeploySandbox", "deploy:run_deploy_sandbox"),
    ("deploy_agent", "Give the played agent its envs", "agent:DeployAgent", "agent:run_deploy_agent"),
    ("prompt_agent", "Open a turn of the played agent", "agent:PromptAgent", "agent:run_prompt_agent"),
    ("apply_server_config", "Call extensions of an env", "config:ApplyServerConfig", "config:run_apply_server_config"),
    (
        "modify_env_tool_access",
        "Disable or enable tools of an env",
        "config:ModifyEnvToolAccess",
        "config:run_modify_env_tool_access",
    ),
    ("load_artifact", "Load artifacts or URLs", "load:LoadArtifact", "load:run_load_artifact"),
    ("run_code", "Run a script of the bundle", "load:RunCode", "code:run_run_code"),
    (
        "env_outcome_verifier",
        "Score what became of an env",
        "verify:EnvOutcomeVerifier",
        "outcome:run_env_outcome_verifier",
    ),
    ("verify_sandbox", "Score files and commands in a sandbox", "verify:VerifySandbox", "probe:run_verify_sandbox"),
    (
        "run_container_unit_tests_verifier",
        "Score by the tests of a project in a sandbox",
        "unit_tests:RunContainerUnitTestsVerifier",
        "unit_tests:run_unit_tests",
    ),
    (
        "agent_prompt_response_verifier",
        "Score a reply of the agent",
        "verify:AgentPromptResponseVerifier",
        "reply:run_agent_prompt_response_verifier",
    ),
    (
        "aggregate_verifiers",
        "Join the rows of several verifiers into one score",
        "verify:AggregateVerifiers",
        "aggregate:run_aggregate_verifiers",
    ),
)


@hookimpl
def agentenv_steps() -> list[StepInfo]:
    """The built-in step types; their fields are in the bundle reader, their work is here."""
    return [
        StepInfo(name, summary, model=f"agent_env.bundle.steps.{model}", run=f"agent_env.episode.steps.{run}")
        for name, summary, model, run in _STEPS
    ]
