"""AgentEnv bundles in TRL: `BundleSpec` for ``GRPOTrainer``, `BundleSessionFactory` for its async trainer.

Importing this module is light; TRL, datasets and transformers are imported by the members that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.training.trl.sessions import BundleSessionFactory
    from agent_env.training.trl.spec import BundleSpec

__all__ = ["BundleSessionFactory", "BundleSpec"]

_HOMES = {"BundleSessionFactory": "sessions", "BundleSpec": "spec"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
