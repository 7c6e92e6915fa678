"""The connection to Modal: a client of the SDK and the App that sandboxes belong to."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from agent_env.plugin.sandboxing.once import Once
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
        self._opened: Once[None, tuple[Any, Any]] = Once(NAME)
        self._own: Any = None

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
        return await self._opened.get(None, lambda _: self._open())

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
        await self._opened.close()
        own, self._own = self._own, None
        if own is not None:
            await own.close.aio()
