"""Sandbox checks: nothing is left, whatever is cancelled, closed or killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from agent_env.errors import AgentEnvError, SandboxError, SandboxGone, SandboxNotFound, SandboxUnsupported
from agent_env.testing.checks import Checks
from agent_env.testing.sandbox_case import LABEL, SandboxCase, play
from agent_env.testing.sandbox_steps import cancelled_at

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Sandbox, SandboxProvider
    from agent_env.testing.sandbox_case import Play

_MOST_STEPS = 12


class LeaseChecks(Checks):
    """Leases."""

    case: SandboxCase

    def test_listing_by_label(self) -> None:
        """Only what carries all the labels is listed."""

        async def work(one: Play) -> None:
            labels = {**one.labels, "color": "blue"}
            async with await one.create(serves=False, labels=labels) as blue, await one.create(serves=False) as plain:
                assert sorted(await one.ids()) == sorted([blue.id, plain.id])
                found = [record.id async for record in one.provider.list(labels)]
                assert found == [blue.id]
                assert [record async for record in one.provider.list({**one.labels, "color": "red"})] == []
                assert {blue.id, plain.id} <= {record.id async for record in one.provider.list()}

        play(self.case, work)

    def test_extending(self) -> None:
        """`extend` counts from now, and other processes see it; who cannot raises `SandboxUnsupported`."""

        async def work(one: Play) -> None:
            async with await one.create(serves=False, ttl_s=600.0) as box:
                before = await _expiry(one)
                if not one.provider.capabilities.extend:
                    try:
                        await box.extend(1200.0)
                    except SandboxUnsupported:
                        return
                    raise AssertionError("it says that it cannot extend, and did")
                await box.extend(1200.0)
                after = await _expiry(one)
                for _ in range(50):  # others may learn of it a moment later
                    if after > before:
                        break
                    await asyncio.sleep(0.1)
                    after = await _expiry(one)
                assert after > before + 300, f"the expiry went from {before} to {after}"
                assert abs(after - (time.time() + 1200.0)) < 120, "the new life does not count from now"

        play(self.case, work)

    def test_a_life_that_is_over(self) -> None:
        """A sandbox ends by itself after ``ttl_s``; one that was extended does not."""
        short = self.case.short_ttl_s
        if short is None:
            raise SkipTest("the shortest life of this provider's sandboxes is too long to wait for")

        async def work(one: Play) -> None:
            box = await one.create(serves=False, ttl_s=short)
            kept = None
            if one.provider.capabilities.extend:
                kept = await one.create(serves=False, ttl_s=short)
                await kept.extend(600.0)
            deadline = time.monotonic() + short + 30
            while box.id in await one.ids() and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.3)
            assert await _has_ended(box), f"it lives on after {short:g} s"
            if kept is not None:
                assert await kept.status() == "running", "the extended one has ended as well"
                await kept.close()

        play(self.case, work)

    def test_attaching_from_another_process(self) -> None:
        """Another process finds a sandbox by its id, runs commands in it and leaves it running."""
        if self.case.registry is not None:
            raise SkipTest("a second process finds installed plugins only")

        async def work(one: Play) -> None:
            async with await one.create() as box:
                await box.write("note.txt", b"from the first process")
                process = await one.child("attach", id=box.id)
                out, _ = await process.communicate()
                assert process.returncode == 0, "the second process failed"
                said = json.loads(out.decode().splitlines()[-1])
                assert said["out"] == "from the first process"
                assert said["status"] == "running"
                assert said["labels"][LABEL] == one.mark
                assert await box.read("answer.txt") == b"from the second process"
                assert await box.status() == "running", "the second process ended it"

        play(self.case, work)

    def test_ended_from_elsewhere(self) -> None:
        """Another provider destroys it: it is gone, commands are `SandboxGone`, close still works."""

        async def work(one: Play) -> None:
            box = await one.create()
            async with one.second(start=False) as other:
                assert await other.destroy(box.id) is True
                assert await other.destroy(box.id) is False
            assert await _has_ended(box), "a sandbox that was destroyed from elsewhere is said to run"
            if one.provider.capabilities.exec:
                try:
                    await box.exec(["python", "-c", "pass"])
                except (SandboxGone, SandboxNotFound):
                    pass
                else:
                    raise AssertionError("a sandbox that was destroyed runs commands")
            await box.close()

        play(self.case, work)

    def test_create_cancelled_at_any_step(self) -> None:
        """Cancelled at each of its awaits and at moments spread over its time, a create leaves nothing."""

        async def work(one: Play) -> None:
            began = time.monotonic()
            async with await one.create():
                seconds = time.monotonic() - began
            for step in range(_MOST_STEPS):
                stopped = cancelled_at(one.create(), step)
                await asyncio.wait([stopped])
                if not stopped.cancelled():  # it waits less often than that, or was done at that very moment
                    await stopped.result().close()
                    break
            for number in range(self.case.cancels):
                task = asyncio.ensure_future(one.create())
                await asyncio.wait([task], timeout=seconds * number / self.case.cancels)
                if task.cancel():
                    await asyncio.wait([task])
                if not task.cancelled():
                    await task.result().close()
            await one.none_left(doing="a cancelled create")

        play(self.case, work)

    def test_provider_closed_during_create(self) -> None:
        """The create ends with an error and leaves nothing, also when several are under way."""

        async def work(one: Play) -> None:
            for pause in (0.0, 0.05, 0.3):
                async with one.second() as other:
                    tasks = [asyncio.ensure_future(one.create(other)) for _ in range(3)]
                    await asyncio.sleep(pause)
                    await other.close()
                    for result in await asyncio.gather(*tasks, return_exceptions=True):
                        assert not isinstance(result, BaseException) or isinstance(
                            result, AgentEnvError | asyncio.CancelledError
                        ), f"a create under way raised {result!r}"
                await one.none_left(doing="closing during a create")

        play(self.case, work)

    def test_owner_killed(self) -> None:
        """What a killed process left is ended when the next provider starts, also what it was just creating."""
        if self.case.registry is not None:
            raise SkipTest("a second process finds installed plugins only")

        async def work(one: Play) -> None:
            for command, wanted in (("hold", "id"), ("create", "creating")):
                process = await one.child(command)
                said = await _line(process)
                assert wanted in said, f"the second process said {said}"
                if wanted == "creating":
                    await asyncio.sleep(0.2)
                process.kill()
                await process.communicate()
                async with one.second() as next_one:
                    await one.none_left(next_one, "a killed owner")
            # What its last request was still making may turn up a little later.
            await asyncio.sleep(1.0)
            await one.provider.reap()
            await one.none_left(doing="a killed owner")

        play(self.case, work)

    def test_live_owner_is_left_alone(self) -> None:
        """`reap` never touches what another live process owns, whatever its age."""
        if self.case.registry is not None:
            raise SkipTest("a second process finds installed plugins only")

        async def work(one: Play) -> None:
            process = await one.child("hold")
            try:
                held = (await _line(process))["id"]
                async with one.second() as other:
                    age = await _age_of_nobody_elses(one, other)
                    assert held not in await other.reap(older_than_s=age), "it reaped a live owner's sandbox"
                    records = [record async for record in other.list(one.labels)]
                    assert [record.id for record in records] == [held]
                    assert records[0].owner_alive is not False, "it calls a live owner dead"
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                await process.communicate()
            await one.none_left(doing="a process that closed its provider")

        play(self.case, work)

    def test_destroyed_during_create(self) -> None:
        """Somebody destroys the sandbox while it is created: an error, and nothing is left."""

        async def work(one: Play) -> None:
            task = asyncio.ensure_future(one.create(env={"CHECK_MODE": "silent"}, startup_timeout=20.0))
            deadline = time.monotonic() + 60
            async with one.second(start=False) as other:
                while not task.done() and time.monotonic() < deadline:
                    for sandbox_id in await one.ids(other):
                        with contextlib.suppress(SandboxError):
                            await other.destroy(sandbox_id)
                    await asyncio.sleep(0.1)
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            assert isinstance(result, SandboxError), f"the create ended with {result!r}"
            await one.none_left(doing="a create whose sandbox was destroyed")

        play(self.case, work)


async def _age_of_nobody_elses(one: Play, other: SandboxProvider) -> float | None:
    """The age of the check's own sandbox for `reap`; `None` when somebody unseen shares the account.

    ``older_than_s`` also ends what the living owners of other machines made.
    """
    began = time.time()
    records = [record async for record in other.list()]
    own = [record for record in records if record.labels.get(LABEL) == one.mark]
    if any(record.owner_alive is None for record in records if record not in own):
        return None
    assert len(own) == 1, f"the sandbox of a living owner is listed {len(own)} times"
    return time.time() - (own[0].created_at + began) / 2  # what others begin from now on is younger


async def _has_ended(box: Sandbox) -> bool:
    """Whether `status` says so, a moment later at most: it may hear of the end from elsewhere."""
    for _ in range(50):
        if await box.status() in {"gone", "exited"}:
            return True
        await asyncio.sleep(0.1)
    return False


async def _expiry(one: Play) -> float:
    async with one.second(start=False) as other:
        records = [record async for record in other.list(one.labels)]
    assert len(records) == 1
    assert records[0].expires_at is not None
    return records[0].expires_at


async def _line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = await process.stdout.readline()
    assert line, "the second process ended without a word"
    said: dict[str, Any] = json.loads(line)
    return said
