"""The service through its SDK: requests of the control plane, with the contract's errors."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from agent_env.errors import SandboxNotFound
from agent_env.sandboxes.e2b import labels
from agent_env.sandboxes.e2b.failures import to_error, too_old
from agent_env.sandboxes.e2b.sdk import loaded, sdk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx
    from agent_env.sandboxes.e2b.labels import Found
    from agent_env.sandboxes.e2b.sdk import SdkInfo, SdkSandbox
    from agent_env.sandboxes.e2b.service import Service

_PAGE = 100
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Client:
    """One account of one service."""

    def __init__(self, service: Service, request_timeout: float) -> None:
        self.service = service
        self.labels = labels.labels_of(service.name)
        self.params = service.params(request_timeout)

    async def create(
        self,
        template: str,
        *,
        create_id: str,
        lease_s: float,
        metadata: Mapping[str, str],
        envs: Mapping[str, str],
        network: str,
        private: bool,
    ) -> SdkSandbox:
        """A sandbox, by one request: a wait that the service asks for is for all processes, and the SDK knows but one.

        Where the service knows the key, a request that a proxy sends again makes no second sandbox.
        """
        options: dict[str, Any] = {**self.params, "retries": 0}
        if self.service.idempotent:
            options["idempotency_key"] = create_id
        return cast(
            "SdkSandbox",
            await sdk().e2b.AsyncSandbox.create(
                template,
                timeout=math.ceil(lease_s),
                metadata=dict(metadata),
                envs=dict(envs),
                allow_internet_access=network == "open",
                network={"allow_public_traffic": not private},
                lifecycle={"on_timeout": "kill"},
                **options,
            ),
        )

    async def connect(self, sandbox_id: str) -> SdkSandbox:
        """A sandbox that another process made.

        Raises:
            SandboxNotFound: it is not there.
        """
        try:
            box: SdkSandbox = await sdk().e2b.AsyncSandbox.connect(sandbox_id, **self.params)
        except Exception as error:
            if getattr(error, "status_code", None) == 405:
                raise too_old(self.service, "connects to sandboxes with POST /v2/sandboxes/ID/connect") from error
            mapped = to_error(error, f"sandbox {sandbox_id}: connect", self.service, sandbox_id)
            if isinstance(mapped, SandboxNotFound) and await self.info(sandbox_id) is not None:
                raise too_old(self.service, "connects to sandboxes with POST /v2/sandboxes/ID/connect") from error
            raise mapped from error
        return box

    async def info(self, sandbox_id: str) -> Found | None:
        """What the service says of a sandbox; `None` when there is none of ours."""
        if not _ID.fullmatch(sandbox_id):
            return None
        await loaded(self.service.oldest_sdk)
        try:
            found: SdkInfo = await sdk().e2b.AsyncSandbox.get_info(sandbox_id, **self.params)
        except Exception as error:
            mapped = to_error(error, f"sandbox {sandbox_id}", self.service, sandbox_id)
            # An id that cannot be one is refused with 400 instead.
            if isinstance(mapped, SandboxNotFound) or getattr(error, "status_code", None) in {400, 404}:
                return None
            raise mapped from error
        return labels.read(self.labels, found)

    async def kill(self, sandbox_id: str) -> bool:
        """End a sandbox; False when it was already gone."""
        try:
            return bool(await sdk().e2b.AsyncSandbox.kill(sandbox_id, **self.params))
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                return False
            raise to_error(error, f"sandbox {sandbox_id}: end", self.service, sandbox_id) from error

    async def set_timeout(self, sandbox_id: str, seconds: float) -> None:
        """Let a sandbox live this long from now.

        Raises:
            SandboxNotFound: it is gone.
        """
        try:
            await sdk().e2b.AsyncSandbox.set_timeout(sandbox_id, math.ceil(seconds), **self.params)
        except Exception as error:
            raise to_error(error, f"sandbox {sandbox_id}: extend", self.service, sandbox_id) from error

    async def list(self, metadata: Mapping[str, str]) -> AsyncIterator[Found]:
        """Sandboxes of ours that carry this metadata."""
        await loaded(self.service.oldest_sdk)
        try:
            query = sdk().e2b.SandboxQuery(metadata=dict(metadata))
            pages = sdk().e2b.AsyncSandbox.list(query=query, limit=_PAGE, **self.params)
            while pages.has_next:
                for info in await pages.next_items():
                    found = labels.read(self.labels, info)
                    # A service that knows no filter lists all.
                    if found is not None and all(info.metadata.get(key) == value for key, value in metadata.items()):
                        yield found
        except Exception as error:
            raise to_error(error, "listing sandboxes", self.service) from error

    async def template_ready(self, name: str) -> bool:
        """Whether a template of ours is there and its build went well."""
        it = await loaded(self.service.oldest_sdk)
        # Asked without the SDK's models: self-hosted servers leave out fields that those insist on.
        http: httpx.AsyncClient = it.api_client.get_api_client(
            it.config.ConnectionConfig(**self.params)
        ).get_async_httpx_client()
        try:
            alias = await self._get(http, f"/templates/aliases/{quote(name, safe='')}")
            template = await self._get(http, f"/templates/{alias['templateID']}") if alias is not None else None
        except Exception as error:
            raise to_error(error, f"template {name}", self.service) from error
        builds = cast("list[dict[str, Any]]", (template or {}).get("builds") or [])
        return any(build.get("status") in {"ready", "uploaded"} for build in builds)

    @staticmethod
    async def _get(http: httpx.AsyncClient, path: str) -> dict[str, Any] | None:
        answer = await http.get(path)
        if answer.status_code == 404:
            return None
        if answer.status_code >= 300:
            raise cast("Exception", sdk().api.handle_api_exception(answer))
        return cast("dict[str, Any]", answer.json())
