"""Steps that configure an env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.episode.access import ToolAccess
from agent_env.errors import EnvError, EnvUnsupported, UsageError

if TYPE_CHECKING:
    from agent_env.bundle.steps.config import ApplyServerConfig, ModifyEnvToolAccess
    from agent_env.episode.run import EpisodeRun
    from agent_env.episode.running import RunningEnv

EVERY = "*"
TOOL_ACCESS = {"disable": "urn:agentenv:disable-tool/v1", "enable": "urn:agentenv:enable-tool/v1"}


async def run_apply_server_config(step: ApplyServerConfig, episode: EpisodeRun) -> None:
    """Call the extension of each directive with its arguments; the answers are kept under the step's id."""
    env = episode.running_env(step.env_id)
    answers: list[dict[str, Any]] = []
    for directive in step.directives:
        _check_service(env, directive.target)
        try:
            result = await env.deployed.handle.call_extension(
                directive.uri, directive.args, timeout=episode.remaining(step.timeout_seconds)
            )
        except EnvUnsupported as error:
            if not step.tolerate_unadvertised:
                raise env.named(error, directive.uri) from error
            answers.append({"service": directive.target, "uri": directive.uri, "skipped": True})
            continue
        except EnvError as error:
            raise env.named(error, directive.uri) from error
        answers.append({"service": directive.target, "uri": directive.uri, "result": result})
    episode.results.setdefault(step.id, answers)
    episode.stale = True


def _check_service(env: RunningEnv, service: str) -> None:
    """A directive names its server. The bundle reader checks this where it knows the names; a card may differ."""
    services = getattr(env.deployed.handle, "services", None)
    told = cast("tuple[str, ...]", services()) if callable(services) else ()
    names = {env.spec.name, *told}
    if env.spec.environment_name is not None:
        names.add(env.spec.environment_name)
    if service != EVERY and service not in names:
        raise UsageError(f"{env.title} has no service {service!r}; it has {', '.join(map(repr, sorted(names)))}")


async def run_modify_env_tool_access(step: ModifyEnvToolAccess, episode: EpisodeRun) -> None:
    """Disable or enable tools for a role: by the env itself where it can, else by the engine, as a gateway would."""
    env = episode.running_env(step.env_id)
    tools = list(step.tools)
    body: dict[str, Any] = {"role": step.role, "tools": EVERY if EVERY in tools else tools}
    episode.stale = True
    if env.access is None:
        try:
            await env.deployed.handle.call_extension(
                TOOL_ACCESS[step.action], body, method=step.action, timeout=episode.remaining(30.0)
            )
            return
        except EnvUnsupported:
            env.access = ToolAccess()
        except EnvError as error:
            raise env.named(error, TOOL_ACCESS[step.action]) from error
    env.access.change(step.role, tools, allow=step.action == "enable")
