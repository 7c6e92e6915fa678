"""What the parts of a stand-in share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.sandboxes.modal.standin.boxes import Boxes
from agent_env.sandboxes.modal.standin.builds import Builder
from agent_env.sandboxes.modal.standin.faults import Faults
from agent_env.sandboxes.modal.standin.tokens import jwt

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine
    from pathlib import Path

    from agent_env.sandboxes.modal.standin.fronts import Front
    from modal_proto import api_pb2

T = TypeVar("T")


class State:
    """A stand-in's memory.

    Attributes:
        folder: where its files are.
        url: its address.
        faults: what goes wrong.
        boxes: its sandboxes.
        builder: its images.
        fronts: what listens for the servers of sandboxes, by id.
        router_tokens: tokens that workers take.
        tls: the certificate of tunnels.
        orders: the creates that were done.
        creates: how many creates were asked for.
        asked_at: when each of them was, by the monotonic clock.
        requests: requests that were answered.
    """

    def __init__(self, folder: Path, tls: ssl.SSLContext | None) -> None:
        self.folder = folder
        self.url = ""
        self.faults = Faults()
        self.boxes = Boxes()
        self.builder = Builder(folder / "images")
        self.fronts: dict[str, Front] = {}
        self.router_tokens: set[str] = set()
        self.tls = tls
        self.orders: list[api_pb2.SandboxCreateV2Request] = []
        self.creates = 0
        self.asked_at: list[float] = []
        self.requests: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def router_token(self) -> str:
        """A fresh token for workers."""
        # Nearly over, so that the SDK asks for another when it is refused.
        token = jwt(20)
        self.router_tokens.add(token)
        return token

    def own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that ends with the stand-in."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End everything."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for front in self.fronts.values():
            await front.close()
        await asyncio.gather(*(box.close() for box in self.boxes.by_id.values()))
