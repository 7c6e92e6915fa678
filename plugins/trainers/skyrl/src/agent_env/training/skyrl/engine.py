"""The inference engine's client as a contained generator sees it."""

from __future__ import annotations

from typing import Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.training.skyrl.textenv import made


class NotingClient:
    """Passes everything on; tells the environment how its reply ended, and an engine's failure by its name.

    SkyRL steps an environment with the text alone: that a reply was cut would be lost.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        if name == "client":
            raise AttributeError(name)
        return getattr(self.client, name)

    async def generate(self, *args: Any, **options: Any) -> Any:
        """The engine's replies.

        Raises:
            EpisodeFailed: there are none; kind ``model``.
        """
        try:
            output = await self.client.generate(*args, **options)
        except Exception as error:
            raise EpisodeFailed(Failure("model", f"the engine failed: {type(error).__name__}: {error}")) from error
        reasons = output.get("stop_reasons") or ["stop"]
        for env in made.get() or ():
            env.finish_reason = reasons[0] if reasons[0] in {"length", "abort"} else "stop"
        return output
