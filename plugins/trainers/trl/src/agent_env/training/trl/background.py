"""The loop on which TRL's synchronous code plays its episodes side by side."""

from __future__ import annotations

from agent_env.rollout.background import Background, background, stop

__all__ = ["Background", "background", "stop"]
