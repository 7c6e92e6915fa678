"""The tools of each toolset, by playing one task of it as far as listing them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError, EpisodeFailed
from agent_env.rollout.opening import Target, close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.tools import ToolSpec
    from agent_env.plugin.trainer import RowSettings
    from agent_env.rollout.session import Connect


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
            AgentEnvError: its env cannot be started; the message names the task.
        """
        toolset = str(task.get("toolset") or task["id"])
        if toolset not in self._known:
            self._known[toolset] = await self._list(split, task)
        return self._known[toolset]

    async def _list(self, split: str, task: dict[str, Any]) -> str:
        try:
            try:
                specs = await self._play(split, task, None)
            except EpisodeFailed as error:
                if "<seed>" not in str(error):
                    raise
                specs = await self._play(split, task, 0)  # any seed has the same tools
        except EpisodeFailed as error:
            raise AgentEnvError(f"the tools of task {task['id']!r} could not be listed: {error}") from error
        except TimeoutError as error:
            raise AgentEnvError(f"the tools of task {task['id']!r} were not listed in time") from error
        return json.dumps([spec.openai() for spec in specs], ensure_ascii=False)

    async def _play(self, split: str, task: dict[str, Any], seed: int | None) -> Sequence[ToolSpec]:
        timeout = self._settings.tool_timeout
        opened = await open_episode(
            Target(self._url, split, int(task["index"]), seed=seed, token=self._token),
            None,
            connect=self._connect,
            deadline=time.monotonic() + self._settings.reset_timeout,
            list_timeout=timeout,
        )
        try:
            return await opened.session.list_tools(timeout=timeout)
        finally:
            await close_quietly(opened.session)
