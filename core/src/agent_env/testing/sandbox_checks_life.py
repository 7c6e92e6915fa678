"""Sandbox checks: from create to close, the server's endpoint, and what is refused."""

# ruff: noqa: PT017 - the checks run without pytest

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import SkipTest

from agent_env.errors import (
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxNotReady,
    SandboxUnsupported,
    UsageError,
)
from agent_env.plugin.sandbox import Resources, Sandbox
from agent_env.testing.checks import Checks
from agent_env.testing.sandbox_case import LABEL, SandboxCase, play
from agent_env.testing.sandbox_http import echo_websocket, get, post

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Isolation
    from agent_env.testing.checks import Target
    from agent_env.testing.sandbox_case import Play

_RANK: dict[Isolation, int] = {"none": 0, "shared": 1, "namespace": 2, "container": 3, "vm": 4}
_SECRET = "correct-horse-battery"  # noqa: S105


class LifeChecks(Checks):
    """From create to close."""

    kind: ClassVar[str] = "sandbox"
    case: SandboxCase

    @classmethod
    def case_of(cls, target: Target) -> SandboxCase:
        """The provider with the options of the command line."""
        from agent_env.registry import default_registry

        registry = None if target.registry is default_registry() else target.registry
        return SandboxCase(target.name, target.options, registry)

    def test_it_is_found_by_its_name(self) -> None:
        """The registry finds it, its summary is one line, and the object has the name."""
        summary = self.case.plugins().info("sandbox", self.case.name).summary
        assert summary.strip(), "the summary is empty"
        assert "\n" not in summary, f"the summary has several lines: {summary!r}"
        assert self.case.provider().name == self.case.name

    def test_unknown_options_are_refused(self) -> None:
        """An option that it does not have is a `UsageError` that names those it has."""
        wrong = SandboxCase(self.case.name, {**self.case.options, "no_such_option": "1"}, self.case.registry)
        try:
            wrong.provider()
        except UsageError as error:
            assert "no_such_option" in str(error), f"the message does not name the option: {error}"
        else:
            raise AssertionError("an unknown option was taken")

    def test_lifecycle(self) -> None:
        """A sandbox runs, answers, is listed with its labels and expiry, and is gone once it is closed."""

        async def work(one: Play) -> None:
            box = await one.create()
            assert isinstance(box, Sandbox)
            assert await box.status() == "running"
            assert box.expires_at is None or math.isfinite(box.expires_at)
            assert box.labels.get(LABEL) == one.mark, f"the label is lost: {dict(box.labels)}"
            have = _RANK[box.isolation]
            assert have >= _RANK["none"], f"unknown isolation {box.isolation!r}"
            records = [record async for record in one.provider.list(one.labels)]
            assert [record.id for record in records] == [box.id]
            assert records[0].labels.get(LABEL) == one.mark
            assert records[0].expires_at is not None, "a sandbox must have a finite life"
            assert records[0].owner_alive is not False, "its owner is alive"
            await box.close()
            assert await box.status() == "gone"
            assert await one.ids() == []

        play(self.case, work)

    def test_the_endpoint_speaks_http(self) -> None:
        """Requests reach the server, also large ones and several at once; its endpoint needs nothing unsaid."""

        async def work(one: Play) -> None:
            async with await one.create() as box:
                endpoint = await box.endpoint()
                assert not endpoint.url.endswith("/"), f"the url ends with a slash: {endpoint.url}"
                body = bytes(range(256)) * 2048
                assert await post(endpoint, "/echo", body) == body
                answers = await asyncio.gather(*(post(endpoint, "/echo", b"%d" % number) for number in range(8)))
                assert answers == [b"%d" % number for number in range(8)]

        play(self.case, work)

    def test_the_endpoint_speaks_websocket(self) -> None:
        """A WebSocket reaches the server."""

        async def work(one: Play) -> None:
            if not one.provider.capabilities.websocket:
                raise SkipTest("the provider's endpoint carries no WebSocket")
            async with await one.create() as box:
                assert await echo_websocket(await box.endpoint(), ["hello", "x" * 5000]) == ["hello", "x" * 5000]

        play(self.case, work)

    def test_a_server_on_tcp_is_reached(self) -> None:
        """A server that knows no unix socket and listens on MCP_PORT is reached as well."""

        async def work(one: Play) -> None:
            async with await one.create(env={"CHECK_MODE": "tcp"}) as box:
                assert await post(await box.endpoint(), "/echo", b"tcp") == b"tcp"

        play(self.case, work)

    def test_variables_and_secrets_reach_the_server(self) -> None:
        """They are in its environment; a secret is in no label, list or repr; the server's own variables are not."""

        async def work(one: Play) -> None:
            async with await one.create(env={"PLAIN": "a b=c"}, secrets={"KEY": _SECRET}) as box:
                endpoint = await box.endpoint()
                assert await get(endpoint, "/env?name=PLAIN") == b'"a b=c"'
                assert await get(endpoint, "/env?name=KEY") == f'"{_SECRET}"'.encode()
                records = [record async for record in one.provider.list(one.labels)]
                assert _SECRET not in repr((records, box, dict(box.labels), one.spec(secrets={"KEY": _SECRET})))

        play(self.case, work)

    def test_another_command(self) -> None:
        """``command`` is run instead of the image's own."""

        async def work(one: Play) -> None:
            async with await one.create(command=("python", "server.py", "other", "words")) as box:
                assert b'["other", "words"]' in await get(await box.endpoint(), "/argv")

        play(self.case, work)

    def test_a_server_that_crashes(self) -> None:
        """Its create raises `SandboxNotReady` with exit code and output, and leaves nothing."""

        async def work(one: Play) -> None:
            error = await _not_ready(one, "crash", 60.0)
            assert "broken on purpose" in f"{error}{error.log_tail}", f"the output is not in the error: {error}"
            assert error.exit_code in {3, None}, f"the exit code is {error.exit_code}"
            await one.none_left(doing="a create that failed")

        play(self.case, work)

    def test_a_server_that_never_answers(self) -> None:
        """Its create raises `SandboxNotReady` past ``startup_timeout``, and leaves nothing."""

        async def work(one: Play) -> None:
            error = await _not_ready(one, "silent", self.case.startup_timeout)
            assert "starting in mode silent" in f"{error}{error.log_tail}", f"the output is not in the error: {error}"
            await one.none_left(doing="a create that failed")

        play(self.case, work)

    def test_a_server_that_dies(self) -> None:
        """It is told by `status` or by requests that fail; its output is in `logs`; close works."""

        async def work(one: Play) -> None:
            async with await one.create() as box:
                endpoint = await box.endpoint()
                await get(endpoint, "/say?text=some-words")
                await _logged(box, "some-words")
                assert len((await box.logs(tail=10)).encode()) <= 10
                try:
                    await get(endpoint, "/exit?code=7")
                except OSError:
                    pass
                else:
                    raise AssertionError("the request that ended the server was answered")
                for _ in range(100):
                    if await box.status() != "running":
                        break
                    await asyncio.sleep(0.05)
                if await box.status() == "exited":
                    assert await box.exit_code() in {7, None}
                    await _logged(box, "leaving now")

        play(self.case, work)

    def test_without_a_server(self) -> None:
        """With ``serves=False`` it idles, runs commands, and its endpoint is `SandboxUnsupported`."""

        async def work(one: Play) -> None:
            async with await one.create(serves=False) as box:
                assert await box.status() == "running"
                if one.provider.capabilities.exec:
                    assert (await box.exec(["python", "-c", "print(1)"])).stdout == "1\n"
                try:
                    await box.endpoint()
                except SandboxUnsupported:
                    return
                raise AssertionError("a sandbox without a server has an endpoint")

        play(self.case, work)

    def test_limits_are_kept_or_refused(self) -> None:
        """What `Capabilities.limits` names is taken, everything else is `SandboxUnsupported`."""

        async def work(one: Play) -> None:
            case = self.case.resources
            asked = {
                "cpu": Resources(cpu=case.cpu),
                "memory_mb": Resources(memory_mb=case.memory_mb),
                "pids": Resources(pids=case.pids),
                "disk_mb": Resources(disk_mb=case.disk_mb),
            }
            for name, resources in asked.items():
                if name in one.provider.capabilities.limits:
                    async with await one.create(resources=resources) as box:
                        assert await box.status() == "running"
                else:
                    await _refused(one, f"the limit {name}", resources=resources)

        play(self.case, work)

    def test_isolation_is_kept_or_refused(self) -> None:
        """Less isolation than asked for is never given."""

        async def work(one: Play) -> None:
            have = one.provider.capabilities.isolation
            async with await one.create(isolation=have) as box:
                assert _RANK[box.isolation] >= _RANK[have]
            if have != "vm":
                await _refused(one, "more isolation than there is", isolation="vm")

        play(self.case, work)

    def test_no_network_means_none(self) -> None:
        """With ``network="none"`` nothing outside is reached; who cannot keep that refuses it."""

        async def work(one: Play) -> None:
            if not one.provider.capabilities.network_none:
                await _refused(one, "network 'none'", network="none")
                return
            async with await one.create(network="none") as box:
                code = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
                done = await box.exec(["python", "-c", code])
                assert done.exit_code != 0, "a connection to the outside was made"
                done = await box.exec(["cat", "/proc/net/route"])
                assert len(done.stdout.splitlines()) <= 1, f"there is a route to the outside: {done.stdout}"

        play(self.case, work)

    def test_an_id_that_is_none(self) -> None:
        """`attach` raises `SandboxNotFound`, `destroy` says False."""

        async def work(one: Play) -> None:
            for wrong in ("deadbeefdead", "no-such-sandbox", "../x"):
                try:
                    await one.provider.attach(wrong)
                except SandboxNotFound:
                    pass
                else:
                    raise AssertionError(f"attach({wrong!r}) found something")
                assert await one.provider.destroy(wrong) is False

        play(self.case, work, prepare=False)

    def test_closing_twice(self) -> None:
        """`close` is idempotent, also at once from two places and after a cancelled one."""

        async def work(one: Play) -> None:
            box = await one.create()
            cancelled = asyncio.ensure_future(box.close())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, box.close(), box.close(), return_exceptions=True)
            await box.close()
            assert await box.status() == "gone"
            assert await one.provider.destroy(box.id) is False
            try:
                await box.exec(["python", "-c", "pass"])
            except (SandboxGone, SandboxNotFound):
                return
            raise AssertionError("a closed sandbox runs commands")

        play(self.case, work)

    def test_a_closed_provider(self) -> None:
        """Closing ends every sandbox of the provider; it is idempotent; a create after it is a `SandboxError`."""

        async def work(one: Play) -> None:
            await asyncio.gather(one.create(), one.create(serves=False))
            await one.provider.close()
            await one.provider.close()
            async with one.second(start=False) as witness:
                await one.none_left(witness, "closing the provider")
            try:
                await one.create()
            except SandboxError:
                return
            raise AssertionError("a closed provider created a sandbox")

        play(self.case, work)


async def _not_ready(one: Play, mode: str, startup_timeout: float) -> SandboxNotReady:
    try:
        await one.create(env={"CHECK_MODE": mode}, startup_timeout=startup_timeout)
    except SandboxNotReady as error:
        return error
    raise AssertionError(f"a server in mode {mode} was called ready")


async def _logged(box: Sandbox, words: str) -> None:
    """The words are in the log, or will be in a moment."""
    for _ in range(50):
        if words in await box.logs():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"what the server wrote is not in its log: {words!r}")


async def _refused(one: Play, what: str, **changes: Any) -> None:
    try:
        box = await one.create(**changes)
    except SandboxUnsupported:
        return
    await box.close()
    raise AssertionError(f"{what} was neither kept nor refused")
