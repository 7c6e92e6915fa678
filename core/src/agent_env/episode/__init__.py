"""The episode engine: plays a task of a bundle as one episode, without any server or trainer.

`Engine` holds what the episodes of a bundle share: the reward, the sandbox providers, the step types, the lists of
tools. `Episode` is one play of one task::

    async with Engine(load_bundle("gridsim")) as engine:
        episode = engine.episode(engine.bundle.task("train", 0))
        turn = await episode.start()
        result = await episode.call_tool("read_day", {})
        outcome = await episode.end_turn("done")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.episode.deployer import Deployer
    from agent_env.episode.engine import Engine
    from agent_env.episode.episode import Episode
    from agent_env.episode.outcome import Outcome, Turn, UnknownTool
    from agent_env.episode.tools import ToolList

__all__ = ["Deployer", "Engine", "Episode", "Outcome", "ToolList", "Turn", "UnknownTool"]

_MODULES = {
    "Deployer": "deployer",
    "Engine": "engine",
    "Episode": "episode",
    "Outcome": "outcome",
    "ToolList": "tools",
    "Turn": "outcome",
    "UnknownTool": "outcome",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `agentenv_steps` is read from here without the engine."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"agent_env.episode.{module}"), name)
