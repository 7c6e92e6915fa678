"""`BundleEnv`, the environment as SkyRL loads it; SkyRL's base class is imported with the first access."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from agent_env.training.skyrl.imports import third_party
from agent_env.training.skyrl.textenv import TextEnv

if TYPE_CHECKING:
    BundleEnv = TextEnv


@functools.cache
def _make_class() -> type[TextEnv]:
    base: type[object] = third_party("skyrl_gym.envs.base_text_env").BaseTextEnv

    class BundleEnv(TextEnv, base):  # type: ignore[misc, valid-type]
        """One episode of a bundle as a SkyRL ``BaseTextEnv``."""

    BundleEnv.__module__, BundleEnv.__qualname__ = __name__, "BundleEnv"
    return BundleEnv


def __getattr__(name: str) -> Any:
    if name == "BundleEnv":
        return _make_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
