"""AgentEnv bundles in NeMo Gym and NeMo RL.

`Service` plays episodes for the agents of NeMo Gym, `build_app` is its HTTP side (extra ``server``), and
`agent_env.training.nemo_gym.gym` the class that NeMo Gym itself starts. Importing this module is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.training.nemo_gym.app import build_app
    from agent_env.training.nemo_gym.service import Service
    from agent_env.training.nemo_gym.settings import ServerSettings

__all__ = ["ServerSettings", "Service", "build_app"]

_HOMES = {"ServerSettings": "settings", "Service": "service", "build_app": "app"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
