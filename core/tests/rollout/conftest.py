from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.rollout import ChatModel, Rollout, Settings, Target
from agent_env.testing.standin import StandInModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.rollout import Result
    from agent_env.testing.standin import Faults
    from agent_env.testing.standin.episodes import FakeEpisodes

    Play = Callable[..., Awaitable["Played"]]

PROMPT = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Go."}]


class Played:
    """A rollout against the stand-in and what the trainer would train on."""

    def __init__(self, result: Result, model: StandInModel, base_url: str) -> None:
        self.result = result
        self.session = model.session(base_url)
        self.samples = model.samples(base_url)

    @property
    def answers(self) -> list[str]:
        """What the model read from its calls."""
        return [str(message["content"]) for message in self.result.messages if message["role"] == "tool"]


@pytest.fixture
def play() -> Play:
    """Play one rollout of fake episodes with a policy behind the stand-in."""

    async def run(
        episodes: FakeEpisodes,
        reply: Callable[..., Any],
        *,
        session: str = "v1",
        faults: Faults | None = None,
        settings: Settings | None = None,
        request: dict[str, Any] | None = None,
        retries: int = 3,
        context: int | None = None,
        **options: Any,
    ) -> Played:
        async with StandInModel(reply, session, faults=faults, context=context) as model:
            base_url = model.open_session()
            target = Target("http://bundle.example", "train", 3)
            tools = options.pop("tools", episodes.schemas)
            bounds = settings or Settings(max_turns=6, reset_timeout=5, model_timeout=20, tool_timeout=5)
            async with ChatModel(base_url, request=request, retries=retries) as chat:
                rollout = Rollout(target, PROMPT, tools, chat, bounds, connect=episodes.connect, **options)
                return Played(await rollout.play(), model, base_url)

    return run
