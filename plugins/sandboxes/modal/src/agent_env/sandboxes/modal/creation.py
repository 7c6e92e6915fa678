"""Creating a sandbox: all or nothing, and safe to cancel at any moment."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import RateLimited, SandboxError, SandboxUnavailable
from agent_env.plugin.sandboxing import lease
from agent_env.plugin.sandboxing.patience import Patience
from agent_env.sandboxes.modal import planning, tags
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.ending import end
from agent_env.sandboxes.modal.failures import NAME, settled, to_error
from agent_env.sandboxes.modal.reaching import wait_ready
from agent_env.sandboxes.modal.sandbox import ModalSandbox
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.plugin.sandboxing.pacing import Pace
    from agent_env.sandboxes.modal.account import Account
    from agent_env.sandboxes.modal.images import Images
    from agent_env.sandboxes.modal.planning import Order
    from agent_env.sandboxes.modal.provider import ModalProvider
    from agent_env.sandboxes.modal.sdk import SdkSandbox

log = logging.getLogger("agent_env.sandboxes.modal")

_LOST_WAITS = (0.0, 1.0, 3.0)
_GRACE = 20.0
_ABANDON_WAIT = 1.0


@dataclass(slots=True)
class _Ticket:
    """What an attempt has begun.

    Attributes:
        create_id: its id.
        label: for messages.
        pending: the request, once it is sent.
        refused: the service said no, so it has made nothing.
    """

    create_id: str
    label: str
    pending: asyncio.Task[SdkSandbox] | None = None
    refused: bool = False


class Creator:
    """Makes sandboxes for one provider."""

    def __init__(self, provider: ModalProvider, account: Account, images: Images, pace: Pace) -> None:
        self._provider = provider
        self._account = account
        self._images = images
        self._pace = pace

    async def create(self, spec: SandboxSpec, until: float) -> ModalSandbox:
        """A sandbox whose server answers, where it has one.

        Args:
            spec: what to create.
            until: time of the event loop at which the caller gives up; nothing waits beyond it.

        Raises:
            SandboxError: the subclass says what happened.
        """
        options = self._provider.options
        planning.refuse(spec, options)
        built = await self._images.get(spec.image, commanded=planning.commanded(spec))
        patience = Patience(self._pace, spec.label, until)
        while True:
            await patience.before()
            create_id = lease.new_id()
            order = planning.order(spec, built, options, create_id)
            try:
                return await self._attempt(spec, order, create_id)
            except (RateLimited, SandboxUnavailable) as error:
                await patience.after(error)

    async def _attempt(self, spec: SandboxSpec, order: Order, create_id: str) -> ModalSandbox:
        ticket = _Ticket(create_id, spec.label)
        try:
            async with self._pace.slot():
                ticket.pending = self._provider.tasks.start(self._ask(order, ticket), f"modal create {create_id}")
                made = await asyncio.shield(ticket.pending)
            box = self._box(made, order)
            if spec.serves:
                await wait_ready(box, self._provider.prober, spec)
            return box
        except BaseException as error:
            if ticket.pending is not None:
                abandoning = self._provider.tasks.start(self._abandon(ticket), f"modal abandon {create_id}")
                if not isinstance(error, asyncio.CancelledError):  # which is raised at once
                    await asyncio.wait([abandoning], timeout=_ABANDON_WAIT)
            raise

    async def _ask(self, order: Order, ticket: _Ticket) -> SdkSandbox:
        """The request; it runs to its end even when the caller is cancelled: only then is known what it made."""
        client, app = await self._account.open()
        try:
            made: SdkSandbox = await sdk().modal.Sandbox.create.aio(
                *order.command, app=app, client=client, **order.arguments
            )
        except sdk().errors.AlreadyExistsError as error:
            # The name is new and ours: the SDK repeated a request whose answer was lost.
            found = await self._by_name(ticket.create_id)
            if found is None:
                raise SandboxUnavailable(f"{ticket.label}: create: its answer was lost", provider=NAME) from error
            return found
        except Exception as error:
            ticket.refused = settled(error)
            raise to_error(error, f"{ticket.label}: create") from error
        return made

    def _box(self, made: SdkSandbox, order: Order) -> ModalSandbox:
        found = tags.read(made.object_id, order.arguments["tags"])
        if found is None:
            raise SandboxError("the tags of a new sandbox are unreadable", provider=NAME, sandbox_id=made.object_id)
        return ModalSandbox(self._provider, made, found, isolation=self._provider.capabilities.isolation, ours=True)

    async def _by_name(self, create_id: str) -> SdkSandbox | None:
        client, _ = await self._account.open()
        options = self._provider.options
        try:
            lookup = sdk().modal.Sandbox.from_name.aio(
                options.app, tags.name_of(create_id), environment_name=options.environment, client=client
            )
            found: SdkSandbox = await within(lookup)
        except sdk().errors.NotFoundError:
            return None
        return found

    async def _abandon(self, ticket: _Ticket) -> None:
        """End whatever an attempt has begun, also what the service has not answered for yet."""
        pending = ticket.pending
        if pending is None:
            return
        await asyncio.wait([pending], timeout=_GRACE)
        if not pending.done():
            pending.cancel()
            await asyncio.wait([pending])
        if not pending.cancelled() and pending.exception() is None:
            await end(pending.result())
            return
        for wait in () if ticket.refused else _LOST_WAITS:
            await asyncio.sleep(wait)
            try:
                found = await self._by_name(ticket.create_id)
            except Exception as problem:  # noqa: BLE001 - the next look may work, and the sandbox's life is finite
                log.info("looking for the sandbox of create %s: %s", ticket.create_id, problem)
                continue
            if found is not None:
                await end(found)
                return
