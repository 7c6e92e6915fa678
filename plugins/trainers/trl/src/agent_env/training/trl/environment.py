"""The environment that TRL makes for each rollout: `reset`, and the task's tools as its only other public methods."""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from agent_env.errors import UsageError
from agent_env.rollout.background import background
from agent_env.rollout.opening import Target
from agent_env.rollout.result import Result
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.steps import OVER
from agent_env.training.trl.episode import Bounds, Ending, Episode
from agent_env.training.trl.methods import tool_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.rollout.session import Connect

NOT_STARTED = "The task could not be started."


@dataclass(frozen=True, slots=True)
class About:
    """What the environments of a class have in common.

    Attributes:
        url: address of the bundle's server.
        token: reads the server's token.
        tools: OpenAI function schemas.
        bounds: the deadlines.
        live: takes the environments in.
        connect: makes an episode's session.
    """

    url: str
    token: Callable[[], str | None]
    tools: Sequence[Mapping[str, Any]]
    bounds: Bounds
    live: Live
    connect: Connect = connect_openenv


class BundleEnvironment:
    """One slot of TRL's pool: it plays one episode after the other.

    TRL offers every public function of the class to the model, so whatever is no tool has an underscore.
    """

    _about: ClassVar[About]
    _aliases: ClassVar[Mapping[str, Mapping[str, str]]]

    def __init__(self) -> None:
        self._slot = _Slot()
        self._about.live.add(self)
        weakref.finalize(self, _Slot.drop, self._slot).atexit = False  # the loop closes what is open at its end

    def reset(self, prompt: Any = None, **row: Any) -> str | None:
        """Begin the episode of a row; an open one is given back.

        The episode starts in the background, so that those of a whole batch start side by side. A row without a
        prompt waits for its start and gets the task's own prompt.

        Raises:
            UsageError: the row names no task.
        """
        about = self._about
        split, index = row.get("split"), _whole(row.get("index"))
        if not isinstance(split, str) or index is None:
            raise UsageError(
                "a row of the dataset has no `split` and `index`: train on the spec's own train_dataset, or keep these "
                "columns when you change it"
            )
        target = Target(about.url, split, index, seed=_whole(row.get("seed")), token=about.token())
        episode = self._slot.play(target, about)
        if _has_text(prompt):
            return None
        turn = background().run(episode.first_turn())
        if turn is None:
            return NOT_STARTED
        return "\n\n".join(part for part in (turn.system_prompt, turn.prompt) if part)

    def _play(self, tool: str, arguments: Mapping[str, Any]) -> str:
        episode = self._slot.episode
        if episode is None:
            return OVER
        try:
            return background().run(episode.call(tool, arguments))
        except concurrent.futures.CancelledError:
            return OVER

    async def _conclude(self, ending: Callable[[Episode], Ending]) -> Result | None:
        """End the episode; runs on the background loop. `None` when there was no reset."""
        episode = self._slot.episode
        return None if episode is None else await episode.finish(ending(episode))

    def _result(self) -> Result:
        """How the episode stands."""
        episode = self._slot.episode
        return Result() if episode is None else episode.result

    def _over(self) -> bool:
        """Whether no episode is open."""
        return self._slot.episode is None or self._slot.episode.over

    def _task(self) -> tuple[str, int, int | None] | None:
        """Split, index and seed of the episode's task."""
        episode = self._slot.episode
        return None if episode is None else (episode.target.split, episode.target.index, episode.target.seed)

    def _close(self) -> None:
        """Give the open episode back and wait for it. Idempotent."""
        self._slot.close()


class Live:
    """The environments that somebody still holds; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: weakref.WeakSet[BundleEnvironment] = weakref.WeakSet()

    def add(self, environment: BundleEnvironment) -> None:
        """Take an environment in."""
        with self._lock:
            self._items.add(environment)

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            items = list(self._items)
        for environment in items:
            environment._close()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


class _Slot:
    """Holds the episode apart from the environment, so that the environment's finalizer can close it."""

    def __init__(self) -> None:
        self.episode: Episode | None = None

    def play(self, target: Target, about: About) -> Episode:
        async def replace(old: Episode | None) -> Episode:
            episode = Episode(target, about.tools, about.bounds, connect=about.connect)
            if old is not None:
                await old.close()
            await episode.begin()
            background().closing.add(episode)
            return episode

        self.episode = background().run(replace(self.episode))
        return self.episode

    def close(self) -> None:
        if self.episode is not None:
            background().run(self.episode.close())

    def drop(self) -> None:
        """Close without waiting: runs when the environment is gone, wherever that happens."""
        if self.episode is not None and not self.episode.over:
            background().submit(self.episode.close())


def environment_class(name: str, about: About) -> type[BundleEnvironment]:
    """A class of its own for a set of tools, so that sets never mix.

    Raises:
        UsageError: a tool cannot be a method.
    """
    methods = tool_methods(about.tools, BundleEnvironment._play)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    members: dict[str, Any] = {method.attribute: method.function for method in methods}
    members |= {
        "__doc__": f"Plays tasks of {about.url}.",
        "_about": about,
        "_aliases": {method.tool: method.aliases for method in methods},
    }
    return cast("type[BundleEnvironment]", type(name, (BundleEnvironment,), members))


def _whole(value: object) -> int | None:
    """An integer, also where a data loader made a float of it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _has_text(prompt: object) -> bool:
    if isinstance(prompt, str):
        return bool(prompt.strip())
    if not isinstance(prompt, list) or not prompt:
        return False
    last: object = cast("list[object]", prompt)[-1]
    content = cast("dict[str, Any]", last).get("content") if isinstance(last, dict) else None
    return bool(content.strip()) if isinstance(content, str) else bool(content)
