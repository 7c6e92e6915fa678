"""What the steps of a task say of one another: envs, sandboxes, the agent, prompts and verifiers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from agent_env.bundle.names import did_you_mean, listing
from agent_env.bundle.steps.agent import DeployAgent, PromptAgent
from agent_env.bundle.steps.deploy import DeployEnv, DeploySandbox
from agent_env.bundle.steps.load import LoadArtifact, RunCode
from agent_env.bundle.steps.unit_tests import RunContainerUnitTestsVerifier
from agent_env.bundle.steps.verify import (
    AgentPromptResponseVerifier,
    AggregateVerifiers,
    EnvOutcomeVerifier,
    ScoringModel,
    VerifySandbox,
)
from agent_env.bundle.tool_rules import check_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.bundle.entities import Entities
    from agent_env.bundle.graph import StepGraph
    from agent_env.plugin.step import StepModel

_IN_SANDBOXES = (DeployAgent, LoadArtifact, VerifySandbox, RunCode, RunContainerUnitTestsVerifier)


class Rules:
    """Checks one task; ``report(step or None, field or None, message)`` takes what is wrong."""

    def __init__(
        self, graph: StepGraph, entities: Entities, report: Callable[[StepModel | None, str | None, str], None]
    ) -> None:
        self._graph = graph
        self._entities = entities
        self._report = report
        self._steps: Sequence[StepModel] = graph.steps

    def check(self) -> None:
        """Report everything."""
        self._envs()
        self._agent()
        self._sandboxes()
        self._verifiers()
        check_tools(self._steps, self._entities, self._report)

    # -- envs ---------------------------------------------------------------------------------------------------------

    def _envs(self) -> None:
        deployed = [step for step in self._steps if isinstance(step, DeployEnv)]
        for step in self._steps:
            if isinstance(step, DeployEnv):
                continue
            step_id = getattr(step, "env_step_id", None)
            if isinstance(step_id, str):
                self._env_step(step, step_id, deployed)
                continue
            env = getattr(step, "env_id", None)
            if isinstance(env, str):
                self._env(step, "env_id", env, deployed)
            elif isinstance(step, DeployAgent):
                for name in step.env_ids or ():
                    self._env(step, "env_ids", name, deployed)

    def _env_step(self, step: StepModel, step_id: str, deployed: list[DeployEnv]) -> None:
        found = next((deploy for deploy in deployed if deploy.id == step_id), None)
        if found is None:
            hint = did_you_mean(step_id, [deploy.id for deploy in deployed])
            self._report(step, "env_step_id", f"{step_id!r} is no deploy_env step{hint}")
            return
        if not self._graph.before(found, step):
            self._report(step, "env_step_id", f"does not run after the step {step_id!r}; name it in depends_on")
        named = getattr(step, "env_id", None)
        names: list[str] = [named] if isinstance(named, str) else []
        if isinstance(step, DeployAgent):
            names += step.env_ids or ()
        for name in names:
            if not self._same(name, found.env_id) and not isinstance(step, DeployAgent):
                self._report(step, "env_step_id", f"the step {step_id!r} deploys {found.env_id!r}, not {name!r}")
        if isinstance(step, DeployAgent):
            for name in names:
                if not self._same(name, found.env_id):
                    self._env(step, "env_ids", name, deployed)

    def _env(self, step: StepModel, field: str, name: str, deployed: list[DeployEnv]) -> None:
        problem = self._entities.problem("env", name)
        if problem is not None:
            self._report(step, field, problem)
            return
        found = [deploy for deploy in deployed if self._same(name, deploy.env_id)]
        if not found:
            self._report(step, field, f"the env {name!r} is not deployed; add a deploy_env step before this one")
        elif len(found) > 1:
            steps = listing(deploy.id for deploy in found)
            has_field = "env_step_id" in type(step).model_fields
            mend = "say which with env_step_id" if has_field else "deploy it once: this step type cannot say which"
            self._report(step, field, f"the env {name!r} is deployed by several steps ({steps}); {mend}")
        elif not self._graph.before(found[0], step):
            self._report(
                step, field, f"does not run after {found[0].id!r}, which deploys {name!r}; name it in depends_on"
            )

    def _same(self, one: str, other: str) -> bool:
        folder = self._entities.folder("env", one)
        return one == other or (folder is not None and folder == self._entities.folder("env", other))

    # -- the agent ----------------------------------------------------------------------------------------------------

    def _agent(self) -> None:
        agents = [step for step in self._steps if isinstance(step, DeployAgent)]
        prompts = [self._steps[n] for n in self._graph.order if self._steps[n].prompts]
        for extra in agents[1:]:
            self._report(extra, None, "is a second played agent; AgentEnv plays tasks with one")
        if not prompts:
            self._report(None, None, "no step prompts an agent, so there is nothing to play; add a prompt_agent step")
        own = [step for step in prompts if isinstance(step, PromptAgent)]
        if not agents and own:
            self._report(None, None, "no step deploys the prompted agent; add a deploy_agent step before prompt_agent")
        if len(agents) == 1:
            self._agent_names(agents[0], own)
        for earlier, later in itertools.pairwise(prompts):
            if not self._graph.before(earlier, later):
                self._report(
                    later, "depends_on", f"may prompt at the same time as {earlier.id!r}; name it in depends_on"
                )
        if len({step.context_id for step in own}) > 1:
            self._report(own[-1], "context_id", "differs between prompts; AgentEnv plays one conversation")

    def _agent_names(self, agent: DeployAgent, prompts: list[PromptAgent]) -> None:
        for prompt in prompts:
            if not self._graph.before(agent, prompt):
                self._report(prompt, "depends_on", f"does not run after {agent.id!r}, which deploys the agent")
        for step in self._steps:
            name = getattr(step, "agent_name", None)
            if isinstance(step, DeployAgent) or (name is None and not isinstance(step, PromptAgent)):
                continue
            if isinstance(step, VerifySandbox) and step.sandbox_name is not None:
                continue
            named = step.agent if isinstance(step, PromptAgent) else name
            if isinstance(named, str) and named != agent.agent:
                hint = did_you_mean(named, [agent.agent]) or f"; the agent is {agent.agent!r}"
                self._report(step, "agent_name", f"no step deploys the agent {named!r}{hint}")

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    def _sandboxes(self) -> None:
        deployed: dict[str, StepModel] = {}
        for step in self._steps:
            if not isinstance(step, DeploySandbox):
                continue
            name = step.sandbox_name
            if name in deployed:
                self._report(step, "sandbox_name", f"{name!r} is also the sandbox of the step {deployed[name].id!r}")
            deployed.setdefault(name, step)
        for step in self._steps:
            if not isinstance(step, _IN_SANDBOXES) or step.sandbox_name is None:
                continue
            found = deployed.get(step.sandbox_name)
            if found is None:
                hint = did_you_mean(step.sandbox_name, deployed)
                self._report(step, "sandbox_name", f"no step deploys the sandbox {step.sandbox_name!r}{hint}")
            elif not self._graph.before(found, step):
                self._report(step, "sandbox_name", f"does not run after {found.id!r}; name it in depends_on")

    # -- verifiers ----------------------------------------------------------------------------------------------------

    def _verifiers(self) -> None:
        if not any(step.scores for step in self._steps):
            self._report(None, None, "no step records a score, so there is no reward; add a verifier")
        turns: dict[str, StepModel] = {}
        for step in self._steps:
            if isinstance(step, PromptAgent):
                self._unique(turns, step.turn_id, step, "prompt_id")
        known: dict[str, StepModel] = {}
        for step in self._steps:
            if isinstance(step, ScoringModel):
                self._unique(known, step.verification, step, "verifier_id")
        for step in self._steps:
            if isinstance(step, (EnvOutcomeVerifier, AgentPromptResponseVerifier)) and step.prompt_id is not None:
                self._named(step, "prompt_id", step.prompt_id, turns, "prompt")
            if isinstance(step, AggregateVerifiers):
                for name in step.verifier_ids:
                    self._named(step, "verifier_ids", name, known, "verifier")

    def _unique(self, known: dict[str, StepModel], name: str, step: StepModel, field: str) -> None:
        if name in known:
            self._report(step, field, f"{name!r} is also the {field} of the step {known[name].id!r}")
        known.setdefault(name, step)

    def _named(self, step: StepModel, field: str, name: str, known: dict[str, StepModel], what: str) -> None:
        found = known.get(name)
        if found is None:
            self._report(step, field, f"there is no {what} {name!r}{did_you_mean(name, known)}")
        elif found is step:
            self._report(step, field, f"names itself: {name!r}")
        elif not self._graph.before(found, step):
            self._report(step, field, f"does not run after {found.id!r}; name it in depends_on")
