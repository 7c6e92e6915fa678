"""The tools of each toolset, by playing one task of it as far as listing them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError, EpisodeFailed, ServerError
from agent_env.rollout.opening import Target, close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.tools import ToolSpec
    from agent_env.plugin.trainer import RowSettings
    from agent_env.rollout.session import Connect

_log = logging.getLogger(__name__)
# An env that fails now and then fails episodes of a training, not its start, even when it does not say that it may
# work the next time. A sandbox provider knows that better, and `open_episode` has done what it said.
_ATTEMPTS = 3
_PAUSE = 0.25
_ENVS_OWN = frozenset({"env", "tool_timeout"})


class Toolsets:
    """Lists tools once for each toolset; they are kept as the JSON text that rows hold."""

    def __init__(
        self, url: str, token: str | None, settings: RowSettings, *, connect: Connect = connect_openenv
    ) -> None:
        self._url = url
        self._token = token
        self._settings = settings
        self._connect = connect
        self._known: dict[str, str] = {}

    async def tools(self, split: str, task: dict[str, Any]) -> str:
        """JSON text of the tools of ``task``, OpenAI function schemas.

        Raises:
            AgentEnvError: its env could not be started in several attempts; the message names the task.
        """
        toolset = str(task.get("toolset") or task["id"])
        if toolset not in self._known:
            self._known[toolset] = await self._list(split, task)
        return self._known[toolset]

    async def _list(self, split: str, task: dict[str, Any]) -> str:
        seed: int | None = None
        attempt = 1
        deadline = time.monotonic() + self._settings.reset_timeout  # of all attempts together
        while True:
            try:
                specs = await self._play(split, task, seed, deadline)
                return json.dumps([spec.openai() for spec in specs], ensure_ascii=False)
            except EpisodeFailed as error:
                if seed is None and "<seed>" in str(error):
                    seed = 0  # any seed has the same tools
                    continue
                late = time.monotonic() + _PAUSE * attempt >= deadline
                if attempt == _ATTEMPTS or late or error.failure.kind not in _ENVS_OWN:
                    raise AgentEnvError(f"the tools of task {task['id']!r} could not be listed: {error}") from error
                _log.info("listing the tools of task %r, attempt %d: %s", task["id"], attempt, error)
            except TimeoutError as error:
                raise AgentEnvError(f"the tools of task {task['id']!r} were not listed in time") from error
            except ServerError as error:
                raise AgentEnvError(f"the tools of task {task['id']!r} could not be listed: {error}") from error
            await asyncio.sleep(_PAUSE * attempt)
            attempt += 1

    async def _play(self, split: str, task: dict[str, Any], seed: int | None, deadline: float) -> Sequence[ToolSpec]:
        timeout = self._settings.tool_timeout
        opened = await open_episode(
            Target(self._url, split, int(task["index"]), seed=seed, token=self._token),
            None,
            connect=self._connect,
            deadline=deadline,
            list_timeout=timeout,
        )
        try:
            return await opened.session.list_tools(timeout=timeout)
        finally:
            await close_quietly(opened.session)
