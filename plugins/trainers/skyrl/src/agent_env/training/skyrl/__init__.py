"""AgentEnv bundles in SkyRL: `register` the environment, generate with `make_generator` or `generator_class`.

Importing this module is light; SkyRL is imported by the functions that need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.training.skyrl.setup import ENV_CLASS, generator_class, make_generator, register

__all__ = ["ENV_CLASS", "generator_class", "make_generator", "register"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.setup"), name)
