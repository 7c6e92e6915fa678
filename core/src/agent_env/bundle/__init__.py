"""Bundles: a folder of envs, tasks, evals and verifiers, read as plain data. Nothing of it runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.bundle.bundle import Bundle
    from agent_env.bundle.model import Artifact, EnvSpec, Split, Task, TaskEntry
    from agent_env.bundle.reader import load_bundle
    from agent_env.bundle.template import TaskTemplate

__all__ = ["Artifact", "Bundle", "EnvSpec", "Split", "Task", "TaskEntry", "TaskTemplate", "load_bundle"]

_MODULES = {
    "Artifact": "model",
    "Bundle": "bundle",
    "EnvSpec": "model",
    "Split": "model",
    "Task": "model",
    "TaskEntry": "model",
    "TaskTemplate": "template",
    "load_bundle": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"agent_env.bundle.{_MODULES[name]}"), name)
