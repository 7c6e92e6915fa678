"""The tools of each toolset, by playing one task of it as far as listing them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError, EpisodeFailed
from agent_env.rollout.opening import Target, close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv

if TYPE_CHECKING:
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
        target = Target(self._url, split, int(task["index"]), token=self._token)
        deadline = time.monotonic() + self._settings.reset_timeout
        try:
            opened = await open_episode(
                target, None, connect=self._connect, deadline=deadline, list_timeout=self._settings.tool_timeout
            )
            try:
                specs = await opened.session.list_tools(timeout=self._settings.tool_timeout)
            finally:
                await close_quietly(opened.session)
        except EpisodeFailed as error:
            raise AgentEnvError(f"the tools of task {task['id']!r} could not be listed: {error}") from error
        except TimeoutError as error:
            raise AgentEnvError(f"the tools of task {task['id']!r} were not listed in time") from error
        return json.dumps([spec.openai() for spec in specs], ensure_ascii=False)
