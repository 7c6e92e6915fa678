"""What the turns of an episode need of verl, so that they can be played without it too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Tokens:
    """A conversation in tokens.

    Attributes:
        ids: prompt and response.
        mask: one for each token of the response: 1 = the model wrote it, 0 = context.
        logprobs: one for each token of the response, 0.0 for context; `None` when the engine gives none.
    """

    ids: list[int]
    mask: list[int] = field(default_factory=list[int])
    logprobs: list[float] | None = None

    @property
    def prompt_ids(self) -> list[int]:
        """The tokens before the response."""
        return self.ids[: len(self.ids) - len(self.mask)]

    @property
    def response_ids(self) -> list[int]:
        """The tokens of the response."""
        return self.ids[len(self.ids) - len(self.mask) :]


class Sampled(Protocol):
    """A reply in tokens, as verl's ``TokenOutput``."""

    @property
    def token_ids(self) -> list[int]: ...
    @property
    def log_probs(self) -> list[float] | None: ...
    @property
    def stop_reason(self) -> str | None: ...


class Engine(Protocol):
    """The model and its tokens, for one episode. What was sampled is never tokenised again."""

    async def start(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Tokens:
        """The prompt.

        Raises:
            UsageError: it does not fit.
        """
        ...

    async def sample(self, ids: list[int], limit: int) -> Sampled:
        """A reply of at most ``limit`` tokens."""
        ...

    async def add_reply(self, tokens: Tokens, reply: Sampled) -> Tokens:
        """``tokens`` with what the model wrote."""
        ...

    async def add_context(
        self, tokens: Tokens, before: list[dict[str, Any]], after: list[dict[str, Any]], tools: list[dict[str, Any]]
    ) -> Tokens:
        """``tokens`` with the messages that ``after`` has beyond ``before``, and the start of the next reply."""
        ...

    async def read(self, reply: Sampled) -> dict[str, Any]:
        """The reply as an assistant message: the calls that the engine reads are ``tool_calls``."""
        ...

    def ends_itself(self, reply: Sampled) -> bool:
        """Whether the reply's last token ends a turn."""
        ...
