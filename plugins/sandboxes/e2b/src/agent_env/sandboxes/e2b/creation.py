"""Creating a sandbox: all or nothing, and safe to cancel at any moment."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import (
    CreateFailed,
    RateLimited,
    SandboxError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from agent_env.plugin.sandbox import TemplateRef
from agent_env.plugin.sandboxing import lease
from agent_env.plugin.sandboxing.pacing import Pace
from agent_env.plugin.sandboxing.patience import Patience
from agent_env.sandboxes.e2b import readiness
from agent_env.sandboxes.e2b.failures import to_error, too_old
from agent_env.sandboxes.e2b.labels import About

if TYPE_CHECKING:
    import httpx
    from agent_env.plugin.sandbox import Endpoint, SandboxSpec
    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.e2b.client import Client
    from agent_env.sandboxes.e2b.options import Options
    from agent_env.sandboxes.e2b.sdk import SdkSandbox
    from agent_env.sandboxes.e2b.templates import Template, Templates

log = logging.getLogger("agent_env.sandboxes.e2b")

_LOST_WAITS = (0.5, 2.0, 5.0)


@dataclass(slots=True)
class Made:
    """A sandbox that runs, and how to reach it."""

    box: SdkSandbox
    create_id: str
    about: About
    endpoint: Endpoint | None
    expires_at: float
    leased_until: float


class _TemplateGone(CreateFailed):
    """The service has no such template, or none that is ready."""


class _Ticket:
    """What an attempt has begun, so that it can be ended whatever is known of it."""

    def __init__(self) -> None:
        self.create_id = lease.new_id()
        self.request: asyncio.Task[SdkSandbox] | None = None


class Creator:
    """Makes sandboxes for one provider."""

    def __init__(
        self, client: Client, templates: Templates, options: Options, tasks: Tasks, http: httpx.AsyncClient
    ) -> None:
        self._client = client
        self._templates = templates
        self._options = options
        self._tasks = tasks
        self._http = http
        self._name = client.service.name
        self._pace = Pace(
            f"{self._name}-{client.service.account}",
            rate=options.creates_per_s,
            burst=options.burst,
            concurrency=options.max_creates,
        )

    def refuse(self, spec: SandboxSpec) -> None:
        """Raises `SandboxUnsupported` for what the service cannot do."""
        if spec.resources.disk_mb is not None:
            raise self._unsupported(spec, "a disk limit: the disk is as large as the template's")
        if spec.resources.pids is not None:
            raise self._unsupported(spec, "a limit of processes")
        if spec.ttl_s > self._options.max_ttl_s:
            raise self._unsupported(
                spec,
                f"a life of {spec.ttl_s:g} s: the option {self._name}.max_ttl_s says {self._options.max_ttl_s:g} s",
            )

    def _unsupported(self, spec: SandboxSpec, what: str) -> SandboxUnsupported:
        return SandboxUnsupported(f"{spec.label}: the {self._name} sandbox cannot give {what}", provider=self._name)

    async def create(self, spec: SandboxSpec, until: float) -> Made:
        """A sandbox whose server answers, where it has one.

        Args:
            spec: what to create.
            until: time of the event loop at which the caller gives up; nothing waits beyond it.

        Raises:
            SandboxError: the subclass says what happened.
        """
        self.refuse(spec)
        patience = Patience(self._pace, spec.label, until)
        rebuilt = isinstance(spec.image, TemplateRef)
        while True:
            template = await self._templates.get(spec.image, spec.resources)
            command = spec.command or template.command
            if spec.serves and command is None:
                raise self._unsupported(
                    spec,
                    "a server: nothing says how to start it. Add a CMD to its Dockerfile, or [process] command to its "
                    "agentenv.toml, or name a command",
                )
            await patience.before()
            try:
                return await self._attempt(spec, template, command)
            except _TemplateGone as error:
                if rebuilt:
                    raise
                # Somebody deleted what was built here: it is built again, once.
                log.warning("%s", error)
                rebuilt = True
            except (RateLimited, SandboxUnavailable) as error:
                await patience.after(error)

    # -- one attempt --------------------------------------------------------------------------------------------------

    async def _attempt(self, spec: SandboxSpec, template: Template, command: tuple[str, ...] | None) -> Made:
        ticket = _Ticket()
        try:
            return await self._make(ticket, spec, template, command)
        except asyncio.CancelledError:
            # Raised at once; what was begun is ended by a task that the provider waits for.
            self._tasks.start(self._abandon(ticket), f"e2b abandon {ticket.create_id}")
            raise
        except BaseException:
            await asyncio.shield(self._tasks.start(self._abandon(ticket), f"e2b abandon {ticket.create_id}"))
            raise

    async def _make(
        self, ticket: _Ticket, spec: SandboxSpec, template: Template, command: tuple[str, ...] | None
    ) -> Made:
        about = About(spec.serves, template.port or spec.port if spec.serves else 0, template.workdir)
        leased = min(spec.ttl_s, self._options.lease_s)
        async with self._pace.slot():
            began = time.time()
            request = self._client.create(
                template.name,
                create_id=ticket.create_id,
                lease_s=leased,
                metadata=self._client.labels.write(ticket.create_id, spec.label, spec.labels, about),
                envs={**spec.env, **spec.secrets},
                network=spec.network or self._options.network,
                private=self._options.ports == "private",
            )
            ticket.request = self._tasks.start(request, "e2b create")
            box = await self._answer(ticket.request, spec, template)
        endpoint: Endpoint | None = None
        if spec.serves and command is not None:
            endpoint = self._endpoint(box, about.port, spec)
            env = {**spec.env, **spec.secrets, "MCP_HOST": "0.0.0.0", "MCP_PORT": str(about.port)}
            await readiness.start(box, self._client.service, spec, command, cwd=template.workdir, env=env)
            timeout = max(spec.startup_timeout, self._options.ready_timeout_s)
            await readiness.wait_ready(box, self._client.service, spec, endpoint, self._http, timeout)
        return Made(box, ticket.create_id, about, endpoint, began + spec.ttl_s, began + leased)

    async def _answer(self, request: asyncio.Task[SdkSandbox], spec: SandboxSpec, template: Template) -> SdkSandbox:
        try:
            return await asyncio.shield(request)
        except Exception as error:
            status = getattr(error, "status_code", None)
            service = self._client.service
            if status == 405:
                raise too_old(service) from error
            if status == 404 or (status == 400 and "template" in str(error).lower()):
                self._templates.forget(template.name)
                raise _TemplateGone(
                    f"{spec.label}: the service has no template {template.name!r} that is ready: {error}",
                    provider=self._name,
                ) from error
            raise to_error(error, f"{spec.label}: create", service) from error

    def _endpoint(self, box: SdkSandbox, port: int, spec: SandboxSpec) -> Endpoint:
        if self._options.ports == "private" and not box.traffic_access_token:
            raise CreateFailed(
                f"{spec.label}: private ports were asked for and the service gave no token for them: they would be "
                f"open to anybody; upgrade the server, or allow that with the option {self._name}.ports=public",
                provider=self._name,
                sandbox_id=box.sandbox_id,
            )
        return self._client.service.endpoint(box, port)

    async def _abandon(self, ticket: _Ticket) -> None:
        """End whatever an attempt has made, also when the answer that would name it was lost."""
        if ticket.request is None:
            return
        await asyncio.wait([ticket.request])
        error: BaseException | None
        if ticket.request.cancelled():
            error = asyncio.CancelledError()
        else:
            error = ticket.request.exception()
        if error is None:
            await self.end(ticket.request.result().sandbox_id)
        elif self._may_have_committed(error) and not await self._end_by_create_id(ticket.create_id):
            # It may be made yet; nobody has to wait for that but the provider's end.
            self._tasks.start(self._look_again(ticket.create_id), f"e2b look for {ticket.create_id}")

    async def _look_again(self, create_id: str) -> None:
        for delay in _LOST_WAITS:
            await asyncio.sleep(delay)
            await self._end_by_create_id(create_id)

    def _may_have_committed(self, error: BaseException) -> bool:
        """Whether a create that failed like this can have made a sandbox all the same."""
        if not isinstance(error, Exception):
            return True
        mapped = to_error(error, "create", self._client.service)
        return isinstance(mapped, SandboxTimeout | SandboxUnavailable) or type(mapped) is SandboxError

    async def _end_by_create_id(self, create_id: str) -> bool:
        try:
            own = self._client.labels
            found = [one async for one in self._client.list({**own.query(), own.create_id: create_id})]
            for one in found:
                await self.end(one.id)
        except SandboxError as error:
            log.debug("looking for what create %s made: %s", create_id, error)
            return False
        return bool(found)

    async def end(self, sandbox_id: str) -> bool:
        """End a sandbox, also when the service stumbles meanwhile; False when it was already gone."""
        last: SandboxError | None = None
        for delay in (0.0, *_LOST_WAITS):
            await asyncio.sleep(delay)
            try:
                return await self._client.kill(sandbox_id)
            except (SandboxUnavailable, SandboxTimeout, RateLimited) as error:
                last = error
        raise last or SandboxError(f"sandbox {sandbox_id} does not end", provider=self._name)
