"""The inference engine's client as a contained generator sees it."""

from __future__ import annotations

from typing import Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.training.skyrl.textenv import made


class NotingClient:
    """Passes everything on; tells the environment what SkyRL does not, and an engine's failure by its name.

    SkyRL steps an environment with the text alone, out of which the engine left the special tokens: that a reply was
    cut would be lost, and calls whose marks are special tokens.

    Args:
        client: SkyRL's.
        tokenizer: decodes the replies.
    """

    def __init__(self, client: Any, tokenizer: Any) -> None:
        self.client = client
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name in {"client", "tokenizer"}:
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
            env.whole = self._whole(output)
        return output

    def _whole(self, output: Any) -> str | None:
        """The first reply with its special tokens, without the one that ends it."""
        replies = output.get("response_ids")
        if not replies:
            return None
        text: str = self.tokenizer.decode(replies[0], skip_special_tokens=False)
        return text.removesuffix(self.tokenizer.eos_token or "")
