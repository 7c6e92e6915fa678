"""The verifier of what became of an env."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.episode import code_runner
from agent_env.episode.grading import conversation
from agent_env.episode.rows import graded, record
from agent_env.errors import EnvError, UsageError
from agent_env.plugin.sandbox import CodeRequest

if TYPE_CHECKING:
    from agent_env.bundle.steps.verify import EnvOutcomeVerifier
    from agent_env.episode.run import EpisodeRun

RUNNER = Path(code_runner.__file__)


async def run_env_outcome_verifier(step: EnvOutcomeVerifier, episode: EpisodeRun) -> None:
    """Run ``verify(mcp_url)`` of the artifact in a child process and score its rows."""
    services = episode.services
    env = episode.running_env(step.env_id)
    artifact = services.bundle.artifact(step.file_artifact_id)
    if artifact.file is None:
        raise UsageError(f"artifact {artifact.name!r} must be one Python file, it is of type {artifact.type!r}")
    run = conversation(episode, step.prompt_id)
    async with env.deployed.mcp_url() as url:
        request = CodeRequest(
            folder=artifact.path,
            file=artifact.file.relative_to(artifact.path).as_posix(),
            function="verify",
            args=(url,),
            runner=RUNNER,
            run=run,
            timeout=episode.remaining(services.verifier_timeout),
        )
        rows = await services.deployer.run_code(env.spec, request, provider=env.provider)
    if graded(step, rows)[1] < 1.0 and await env.deployed.why_gone() is not None:
        raise EnvError("the env had ended, so the verifier graded what was left of it")
    record(episode, step, rows)
