"""OpenEnv's resource sessions over a served bundle, for TRL's async trainer and everything else that takes them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import EpisodeFailed, UsageError
from agent_env.rollout.background import background
from agent_env.rollout.opening import Target
from agent_env.rollout.session import connect
from agent_env.rollout.text import plain_text
from agent_env.training.trl.discover import choose_splits
from agent_env.training.trl.ending import ending_of
from agent_env.training.trl.episode import Bounds, Episode
from agent_env.training.trl.imports import third_party
from agent_env.training.trl.rows import prompt_of
from agent_env.training.trl.spec import read_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.session import TurnReply


class BundleSessionFactory:
    """Makes a session for each rollout; it can be pickled into another process.

    ``task`` of `create` says which task is played: an index, a row with ``split``, ``index`` and perhaps ``seed``, or
    the messages of a prompt. TRL's async trainer gives the prompt, and the number of the group as ``seed``: of the
    tasks with that prompt the seed chooses one, so that a group plays one task. A prompt that is no task's own chooses
    among all.

    Args:
        url: address of the bundle's server.
        split: split of the tasks; default as in `BundleSpec`.
        token_var: environment variable that holds the server's token.
        tool_timeout: seconds for a tool call.
        reset_timeout: seconds for getting an episode and for each turn's end.
        seeded: the tasks have a ``<seed>`` placeholder: give them the seed of `create`.
    """

    def __init__(
        self,
        url: str,
        split: str | None = None,
        *,
        token_var: str | None = None,
        tool_timeout: float = 60.0,
        reset_timeout: float = 600.0,
        seeded: bool = False,
    ) -> None:
        self.url = url.rstrip("/")
        self._split = split
        self._token_var = token_var
        self._bounds = Bounds(tool_timeout, reset_timeout)
        self._seeded = seeded
        self._known: tuple[str, dict[str, list[int]]] | None = None

    def __repr__(self) -> str:
        return f"BundleSessionFactory({self.url!r}, {self._split!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Any:
        """Get an episode; the session is an ``openenv.core.harness.ResourceSession``.

        Raises:
            EpisodeFailed: there is none to be had; TRL takes that for a rollout without a score.
            UsageError: ``task`` names no task.
        """
        del episode_id  # names a rollout of the trainer's; the server's ids are its own
        token = read_token(self._token_var)
        split, index, given = self._choose(task, seed, token)
        target = Target(self.url, split, index, seed=seed if given is None and self._seeded else given, token=token)
        return background().run(self._open(target, task))

    async def _open(self, target: Target, task: Any) -> Any:
        episode = Episode(target, None, self._bounds, connect=connect)
        background().closing.add(episode)
        try:
            await episode.begin()
            turn = await episode.first_turn()
            if turn is None:
                failure = episode.result.failure
                assert failure is not None
                raise EpisodeFailed(failure)
            tools = await episode.list_tools()
            messages = cast("list[dict[str, Any]]", task) if _is_prompt(task) else prompt_of(_turn_fields(turn))
            return _session_class()(episode, tools, messages)
        except BaseException:
            await episode.close()
            raise

    def _choose(self, task: Any, seed: int | None, token: str | None) -> tuple[str, int, int | None]:
        if isinstance(task, dict) and "index" in task:
            row = cast("dict[str, Any]", task)
            own: Any = row.get("split") or self._split
            split = str(own) if own else self._tasks(token)[0]
            given: Any = row.get("seed")
            return split, int(row["index"]), None if given is None else int(given)
        if isinstance(task, int) and not isinstance(task, bool):
            return self._split or self._tasks(token)[0], task, None
        if not isinstance(task, str) and not _is_prompt(task):
            raise UsageError(f"a task is an index, a row or a prompt, not {type(cast('object', task)).__name__}")
        split, by_prompt = self._tasks(token)
        found = by_prompt.get(_key(task)) or [index for indices in by_prompt.values() for index in indices]
        return split, found[(seed or 0) % len(found)], None

    def _tasks(self, token: str | None) -> tuple[str, dict[str, list[int]]]:
        """The split, and its tasks by their prompts."""
        if self._known is None:
            self._known = background().run(self._read(token))
        return self._known

    async def _read(self, token: str | None) -> tuple[str, dict[str, list[int]]]:
        from agent_env.openenv.client import BundleClient

        split, _ = await choose_splits(self.url, self._split, None, token=token)
        by_prompt: dict[str, list[int]] = {}
        async with BundleClient(self.url, token=token) as client:
            async for task in client.tasks(split):
                by_prompt.setdefault(_key(prompt_of(task)), []).append(int(task["index"]))
        if not by_prompt:
            raise UsageError(f"split {split!r} of {self.url} has no tasks")
        return split, by_prompt


@cache
def _session_class() -> Any:
    """The session's class; OpenEnv is imported with the first session only."""
    harness = third_party("openenv.core.harness")
    tool_type = third_party("openenv.core.env_server.mcp_types").Tool
    base: type[object] = harness.ResourceSession

    class BundleSession(base):  # type: ignore[misc, valid-type]
        """One episode of a bundle."""

        def __init__(self, episode: Episode, tools: list[ToolSpec], messages: list[dict[str, Any]]) -> None:
            self._episode = episode
            self._messages = messages
            self._tools = [
                tool_type(name=tool.name, description=tool.description, input_schema=dict(tool.input_schema))
                for tool in tools
            ]
            self._names: dict[str, dict[str, str]] = {tool.name: {} for tool in tools}

        def initial_messages(self) -> list[dict[str, Any]]:
            return [dict(message) for message in self._messages]

        def list_tools(self) -> list[Any]:
            return list(self._tools)

        def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
            text = background().run(self._episode.call(name, arguments))
            result = self._episode.result
            metadata = {} if result.reward is None else {"reward": result.reward}
            failed = result.failure is not None
            error = "the episode failed" if failed else text if text.startswith("Error") else None
            return harness.ToolResult(data=text, done=self._episode.over, metadata=metadata, error=error)

        def verify(self, transcript: list[dict[str, Any]], final_state: Any | None = None) -> Any:
            del final_state
            replies = transcript[len(self._messages) :] if self._starts(transcript) else transcript
            ending = ending_of(replies, None, played=self._episode.calls, aliases=self._names, ends=())
            result = background().run(self._episode.finish(ending))
            failure = result.failure
            metrics: dict[str, Any] = {"scores": dict(result.scores), "tool_calls": result.tool_calls}
            if failure is not None:
                metrics["failure"] = str(failure)
            reward = None if failure is not None else result.reward
            return harness.VerifyResult(env_reward=reward, done=True, metrics=metrics)

        def close(self) -> None:
            background().run(self._episode.close())

        def _starts(self, transcript: list[dict[str, Any]]) -> bool:
            head = transcript[: len(self._messages)]
            return [message.get("role") for message in head] == [message.get("role") for message in self._messages]

    return BundleSession


def _is_prompt(task: Any) -> bool:
    if not isinstance(task, list):
        return False
    messages = cast("list[object]", task)
    return bool(messages) and all(isinstance(message, dict) for message in messages)


def _turn_fields(turn: TurnReply) -> dict[str, Any]:
    return {"prompt": turn.prompt, "system_prompt": turn.system_prompt}


def _key(prompt: Any) -> str:
    """A prompt for comparison: its texts by role, without messages that hold none."""
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    parts = [
        (str(message.get("role")), plain_text(message.get("content")).strip())
        for message in cast("list[Mapping[str, Any]]", prompt)
    ]
    return json.dumps([part for part in parts if part[1]])
