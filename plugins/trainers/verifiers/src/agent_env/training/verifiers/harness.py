"""The harness: the loop of `agent_env.rollout` in the worker's own process, every reply through verifiers' endpoint."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError
from agent_env.rollout.chat import ChatModel
from agent_env.rollout.model import ContextFull, ModelFailed
from agent_env.training.verifiers import live
from agent_env.training.verifiers.failures import error_of
from agent_env.training.verifiers.play import messages_of, parser_of
from agent_env.training.verifiers.toolset import HARNESS

import verifiers.v1 as vf  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from agent_env.rollout.model import Model, Reply


class BundleHarnessConfig(vf.HarnessConfig):
    """Bounds stand in the rows; verifiers' own limits hold beside them."""

    id: str = HARNESS


class BundleHarness(vf.Harness[BundleHarnessConfig]):
    """Plays the task's episode in this process; calls and their answers are native."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,  # noqa: ARG002 - nothing runs there
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],  # noqa: ARG002 - the tools are the episode's
        data: Any,
    ) -> Any:
        """Play the episode to its end."""
        episode = live.get(trace.id)
        if episode is None:
            raise vf.HarnessError(f"harness {HARNESS!r} plays tasks of the taskset {HARNESS!r} and no others")
        system_prompt, prompt = self.resolve_prompt(data)
        if not isinstance(prompt, str):
            raise vf.HarnessError(f"harness {HARNESS!r} takes a text as the prompt, got {type(prompt).__name__}")
        row = trace.task.data
        try:
            parser = parser_of(row.parser)
        except AgentEnvError as error:
            raise vf.HarnessError(str(error)) from error
        async with ChatModel(endpoint, request={"model": ctx.model}, timeout=row.model_timeout, key=secret) as model:
            result = await episode.converse(messages_of(prompt, system_prompt), _Stopping(model, trace), parser=parser)
        if result.failure is not None:
            raise error_of(result.failure)
        if result.end_reason == "max_turns":
            trace.stop("max_turns")
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def cleanup(self, trace: Any, runtime: Any) -> None:  # noqa: ARG002
        """Give the episode back, however the rollout ended."""
        await live.close(trace.id)


class _Stopping:
    """A model that verifiers may stop (limits, `@vf.stop`): the episode is scored as far as it came."""

    def __init__(self, model: Model, trace: Any) -> None:
        self._model = model
        self._trace = trace

    @property
    def retried(self) -> int:
        """Attempts beyond the first."""
        return int(getattr(self._model, "retried", 0))

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        try:
            return await self._model(messages, tools)
        except ModelFailed as error:
            if self._trace.stop_condition is None:
                raise
            raise ContextFull(f"verifiers ended the rollout: {self._trace.stop_condition}") from error
