"""The connection to Modal: a client of the SDK and the App that sandboxes belong to."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxUnavailable
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.failures import NAME, to_error
from agent_env.sandboxes.modal.sdk import sdk
from agent_env.sandboxes.modal.throttling import raise_limits

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.options import ModalOptions


class Account:
    """Opened when it is first used; credentials are those of Modal's own settings."""

    def __init__(self, options: ModalOptions) -> None:
        self._options = options
        self._opening: asyncio.Task[tuple[Any, Any]] | None = None
        self._own: Any = None
        self._closed = False

    @property
    def key(self) -> str:
        """The account, for pacing: no secret, and the same in every process."""
        config = sdk().config
        who = f"{config.get('server_url')} {config.get('token_id')} {config.get('environment')}"
        return hashlib.sha256(who.encode()).hexdigest()[:16]

    async def open(self) -> tuple[Any, Any]:
        """The client and the App.

        Raises:
            SandboxError: the credentials are wrong, or the service does not answer.
        """
        if self._closed:
            raise SandboxUnavailable("the modal provider is closed", provider=NAME, retryable=False)
        opening = self._opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            opening = self._opening = asyncio.create_task(self._open(), name="modal open")
        return await asyncio.shield(opening)

    async def _open(self) -> tuple[Any, Any]:
        modal = (await asyncio.to_thread(sdk)).modal
        config = sdk().config
        token_id, token_secret = config.get("token_id"), config.get("token_secret")
        try:
            if token_id and token_secret:
                # A client of our own, so that closing it takes nothing from another user of the SDK.
                if self._own is None:
                    self._own = await within(modal.Client.from_credentials.aio(token_id, token_secret))
                    raise_limits(self._own)
                client = self._own
            else:
                client = await within(modal.Client.from_env.aio())
            lookup = modal.App.lookup.aio(
                self._options.app,
                client=client,
                environment_name=self._options.environment,
                create_if_missing=True,
            )
            app = await within(lookup)
        except Exception as error:
            raise to_error(error, f"Modal, App {self._options.app!r}") from error
        return client, app

    async def close(self) -> None:
        """Close what was opened; idempotent."""
        self._closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if not self._opening.cancelled():
                self._opening.exception()
        own, self._own = self._own, None
        if own is not None:
            await own.close.aio()
