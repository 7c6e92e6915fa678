"""Creating a container: all or nothing, and safe to cancel at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent_env.errors import SandboxError, SandboxGone, SandboxUnsupported
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.docker import containers, labels, networks, plan, state
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.readiness import NoPython, Reach, wait_ready

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine
    from pathlib import Path

    from agent_env.plugin.sandbox import Endpoint, SandboxSpec
    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.docker.engine import Engine
    from agent_env.sandboxes.docker.images import Facts, Images
    from agent_env.sandboxes.docker.labels import About, Found
    from agent_env.sandboxes.docker.options import DockerOptions
    from agent_env.sandboxes.docker.plan import Machine, Way

log = logging.getLogger("agent_env.sandboxes.docker")
T = TypeVar("T")

_LOST_WAITS = (0.5, 2.0, 5.0)
_MOST_ATTEMPTS = 6
_IDLE_LOOK_S = 0.3
_BOOT_S = 10.0
_LOOK_S = 0.5
Network = Literal["none", "open", "host"]


@dataclass(slots=True)
class Made:
    """A container that runs, and how to reach it."""

    found: Found
    facts: Facts
    read_only: bool
    endpoint: Endpoint | None
    reach: Reach | None


class _Again(Exception):
    """The attempt failed for a reason that was mended; the next may work."""


class Turn:
    """Where a create stands: what it waits in line is no part of its time.

    Attributes:
        waiting: others begin before it.
    """

    def __init__(self) -> None:
        self.waiting = False

    @contextlib.asynccontextmanager
    async def take(self, slots: asyncio.Semaphore) -> AsyncGenerator[None]:
        """A slot, held while the ``async with`` lasts."""
        self.waiting = True
        try:
            await slots.acquire()
        finally:
            self.waiting = False
        try:
            yield
        finally:
            slots.release()

    async def wait(self, create: asyncio.Task[Any], timeout: float) -> None:
        """Wait for the create, at most ``timeout`` seconds besides its waiting in line."""
        loop = asyncio.get_running_loop()
        left = timeout
        while not create.done() and left > 0:
            began, waited = loop.time(), self.waiting
            await asyncio.wait([create], timeout=min(left, _LOOK_S))
            if not (waited and self.waiting):
                left -= loop.time() - began


class _Ticket:
    """What an attempt has begun, so that it can be ended whatever is known of it."""

    def __init__(self, create_id: str, tasks: Tasks) -> None:
        self.create_id = create_id
        self.folder = False
        self.begun = False
        self.reach: Reach | None = None
        self._tasks = tasks
        self.pending: asyncio.Task[Any] | None = None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """A request that runs to its end even when the caller is cancelled: only then is known what it made."""
        self.begun = True
        task = self.pending = self._tasks.start(work, "docker create")
        return await asyncio.shield(task)


class Creator:
    """Makes containers for one provider."""

    def __init__(
        self, engine: Engine, images: Images, options: DockerOptions, root: Path, tasks: Tasks, machine: Machine
    ) -> None:
        self.machine = machine
        self._engine = engine
        self._images = images
        self._options = options
        self._root = root
        self._tasks = tasks
        self._slots = asyncio.Semaphore(options.max_starts)
        self._by_port: set[str] = set()
        self._idle: dict[str, int] = {}
        self._idles_with: set[str] = set()
        self._init = True
        self._bridge = networks.Bridge(engine, root)

    async def create(self, spec: SandboxSpec, turn: Turn, *, for_code: bool = False) -> Made:
        """A container whose server answers, where it has one; ``for_code`` puts it beside this server.

        Raises:
            SandboxError: the subclass says what happened.
        """
        plan.refuse(spec, self._options, self.machine)
        for left in range(_MOST_ATTEMPTS, -1, -1):
            facts = await self._images.get(spec.image)
            way: Way = "port" if facts.id in self._by_port else self.machine.way
            chosen: Network = spec.network or self._options.network
            if for_code:
                way, chosen = ("socket", "host") if self.machine.local else ("tunnel", self._options.network)
            if way == "port" and spec.serves and chosen == "none":
                if spec.network == "none":
                    raise self._no_way(spec, facts)
                chosen = "open"
            try:
                return await self._attempt(spec, facts, way, chosen, None if for_code else turn)
            except NoPython as error:
                if not self.machine.local or way != "socket":
                    raise self._no_way(spec, facts) from error
                self._by_port.add(facts.id)
            except _Again as error:
                if left == 0:
                    raise self._refused(spec, error.__cause__ or error) from error
        raise SandboxUnsupported(f"{spec.label}: not created after {_MOST_ATTEMPTS} attempts", provider=NAME)

    async def close(self) -> None:
        """Stop what creates share; they themselves have ended."""
        await self._bridge.close()

    def _no_way(self, spec: SandboxSpec, facts: Facts) -> SandboxUnsupported:
        return SandboxUnsupported(
            f"{spec.label}: the server of image {facts.name} listens on TCP only and the image has no Python that "
            "could lead to it without a network; make it listen on the unix socket AGENTENV_UDS, add Python to the "
            "image, or use the option docker.endpoint=port with an engine on this machine",
            provider=NAME,
        )

    @staticmethod
    def _refused(spec: SandboxSpec, error: BaseException) -> SandboxError:
        if isinstance(error, EngineError):
            return to_error(error, f"{spec.label}: create")
        return SandboxUnsupported(f"{spec.label}: create: {error}", provider=NAME)

    # -- one attempt --------------------------------------------------------------------------------------------------

    async def _attempt(self, spec: SandboxSpec, facts: Facts, way: Way, network: Network, turn: Turn | None) -> Made:
        ticket = _Ticket(lease.new_id(), self._tasks)
        try:
            return await self._make(ticket, spec, facts, way, network, turn)
        except asyncio.CancelledError:
            # Raised at once; what was begun is ended by a task that the provider waits for.
            self._tasks.start(self._abandon(ticket), f"docker abandon {ticket.create_id}")
            raise
        except BaseException:
            await asyncio.shield(self._tasks.start(self._abandon(ticket), f"docker abandon {ticket.create_id}"))
            raise

    async def _make(
        self, ticket: _Ticket, spec: SandboxSpec, facts: Facts, way: Way, network: Network, turn: Turn | None
    ) -> Made:
        create_id = ticket.create_id
        read_only = plan.is_read_only(spec, facts, self._options)
        if network == "open" or way == "port":
            await self._bridge.ready()
        # Finished episodes wait for the container of their verifiers: it does not queue behind those that begin.
        async with contextlib.nullcontext() if turn is None else turn.take(self._slots):
            about = plan.about(spec, facts, self.machine, way, str(self._root / create_id), network)
            if about.way in {"socket", "tunnel"}:
                await asyncio.to_thread(state.new_folder, self._root, create_id)
                ticket.folder = True
            container, made_labels = await self._start(ticket, spec, facts, about, network)
            found = labels.read(container, made_labels, (), "running")
            if found is None:
                raise SandboxUnsupported(f"{spec.label}: the engine lost the labels", provider=NAME)
            if not spec.serves:
                await self._idles(spec, facts, found.id)
                return Made(found, facts, read_only, None, None)
            reach = ticket.reach = Reach(self._engine, found.id, about, str(self._root / create_id / "t"))
            ready = asyncio.create_task(wait_ready(self._engine, found.id, reach, spec), name="docker ready")
            try:
                # Hundreds of interpreters that start at the same time keep each other from ever being ready.
                await asyncio.wait([ready], timeout=_BOOT_S)
            except asyncio.CancelledError:
                ready.cancel()
                raise
        try:
            return Made(found, facts, read_only, await ready, reach)
        finally:
            ready.cancel()

    async def _start(
        self, ticket: _Ticket, spec: SandboxSpec, facts: Facts, about: About, network: Network
    ) -> tuple[str, dict[str, str]]:
        now = time.time()
        made_labels = labels.LABELS.write(
            ticket.create_id, spec.label, spec.labels, about, created_at=now, expires_at=now + spec.ttl_s
        )
        idle = plan.idle_commands(spec.ttl_s)
        nth = self._idle.get(facts.id, 0)
        body = plan.container(
            spec,
            facts,
            about,
            self._options,
            labels=made_labels,
            network=network,
            init=self._init,
            idle=idle[min(nth, len(idle) - 1)],
        )
        name = labels.name_of(ticket.create_id)
        try:
            call = self._engine.call("POST", "containers/create", params={"name": name}, body=body)
            answer = await ticket.do(call)
            container = str(answer["Id"])
            await ticket.do(self._engine.call("POST", f"containers/{container}/start"))
        except EngineError as error:
            raise self._mended(spec, facts, error) from error
        return container, made_labels

    def _mended(self, spec: SandboxSpec, facts: Facts, error: EngineError) -> Exception:
        """The error of an attempt, `_Again` where the next one may work."""
        text = error.message.lower()
        missing = "executable file not found" in text or "no such file or directory" in text
        if error.status == 404 and "no such image" in text:
            self._images.forget(spec.image)
            return _Again(error.message)
        if error.status == 404 and "no such container" in text:
            return SandboxGone(
                f"{spec.label}: its container was removed from outside while it was created", provider=NAME
            )
        if "docker-init" in text and self._init:
            self._init = False
            return _Again(error.message)
        if "bind source path does not exist" in text and self.machine.way == "socket":
            log.warning("the Docker engine does not see this server's files: its containers are reached by tunnel")
            self.machine = replace(self.machine, way="tunnel", local=False)
            return _Again(error.message)
        if "network agentenv" in text and "not found" in text:
            self._bridge.forget()
            return _Again(error.message)
        if missing and not spec.serves:
            return self._next_idle(spec, facts, error.message)
        return to_error(error, f"{spec.label}: create")

    async def _idles(self, spec: SandboxSpec, facts: Facts, container: str) -> None:
        """See, once for each image, that it has the command that keeps it alive: the init in it starts either way."""
        if facts.id in self._idles_with:
            return
        await asyncio.sleep(_IDLE_LOOK_S)
        found = await containers.inspect(self._engine, container)
        if found is None:
            raise SandboxGone(f"{spec.label}: its container was removed while it was created", provider=NAME)
        if containers.exit_code(found) in {126, 127}:
            raise self._next_idle(spec, facts, "no command to stay alive with")
        self._idles_with.add(facts.id)

    def _next_idle(self, spec: SandboxSpec, facts: Facts, why: str) -> Exception:
        tried = self._idle[facts.id] = self._idle.get(facts.id, 0) + 1
        if tried < len(plan.idle_commands(spec.ttl_s)):
            return _Again(why)
        return SandboxUnsupported(
            f"{spec.label}: the image {facts.name} has neither `sleep` nor Python to stay alive with", provider=NAME
        )

    async def _abandon(self, ticket: _Ticket) -> None:
        """End whatever an attempt has begun, also what the engine has not answered for yet."""
        if ticket.reach is not None:
            await ticket.reach.close()
        if ticket.begun:
            lost = False
            if ticket.pending is not None:
                await asyncio.wait([ticket.pending])
                error = None if ticket.pending.cancelled() else ticket.pending.exception()
                lost = isinstance(error, EngineError) and error.status == 0
            await containers.remove(self._engine, labels.name_of(ticket.create_id))
            for delay in _LOST_WAITS if lost else ():
                await asyncio.sleep(delay)
                await containers.remove(self._engine, labels.name_of(ticket.create_id))
        if ticket.folder:
            await asyncio.to_thread(state.remove_folder, self._root, ticket.create_id)
