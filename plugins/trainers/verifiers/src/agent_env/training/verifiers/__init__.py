"""AgentEnv bundles in verifiers (and prime-rl): a taskset, its tools and a harness.

Importing this module is light; verifiers is imported by the members that need it. verifiers itself loads the top-level
module `agentenv_trainer_verifiers`, whose name is the taskset's id.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "BundleData": "task",
    "BundleEnv": "env",
    "BundleEnvConfig": "env",
    "BundleHarness": "harness",
    "BundleHarnessConfig": "harness",
    "BundleState": "task",
    "BundleTask": "task",
    "BundleTaskset": "taskset",
    "BundleTasksetConfig": "taskset",
    "BundleToolset": "toolset",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
