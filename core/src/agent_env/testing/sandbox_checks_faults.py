"""Sandbox checks: what the provider's service does wrong, where it can be made to."""

# ruff: noqa: PT017 - the checks run without pytest

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar
from unittest import SkipTest

from agent_env.errors import (
    BuildFailed,
    QuotaExceeded,
    RateLimited,
    SandboxAuthFailed,
    SandboxError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from agent_env.plugin.sandbox import BuildContext
from agent_env.testing.checks import Checks
from agent_env.testing.sandbox_case import SandboxCase, play
from agent_env.testing.sandbox_env import DOCKERFILE, write_env

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxProvider
    from agent_env.testing.sandbox_case import Fault, Play


class FaultChecks(Checks):
    """Faults."""

    case: SandboxCase
    expected: ClassVar[dict[Fault, tuple[type[SandboxError], ...]]] = {
        "auth": (SandboxAuthFailed,),
        "rate_limit": (RateLimited,),
        "quota": (QuotaExceeded,),
        "unavailable": (SandboxUnavailable, SandboxTimeout),
    }

    def test_an_image_that_does_not_build(self) -> None:
        """It is `BuildFailed` with the end of the log, and tried again it fails again."""

        async def work(one: Play) -> None:
            if one.provider.capabilities.isolation in {"none", "shared", "namespace"}:
                raise SkipTest("the provider runs no Dockerfile")
            text = f"{DOCKERFILE}RUN echo before-the-end && exit 9\n"
            folder = await asyncio.to_thread(write_env, one.folder / "broken", dockerfile=text)
            for _ in range(2):
                try:
                    await one.provider.prepare(BuildContext(folder))
                except BuildFailed as error:
                    assert "before-the-end" in f"{error.log}{error}", f"the log is not in the error: {error}"
                else:
                    raise AssertionError("a Dockerfile whose RUN fails was built")

        play(self.case, work, prepare=False)

    def test_an_image_is_prepared_once(self) -> None:
        """`prepare` from several places at once works, tells its progress in lines, and is quick to repeat."""

        async def work(one: Play) -> None:
            folder = await asyncio.to_thread(write_env, one.folder / "twice", dockerfile=f"{DOCKERFILE}# {one.mark}\n")
            lines: list[str] = []
            async with one.second() as other:
                image = BuildContext(folder)
                await asyncio.gather(
                    one.provider.prepare(image, progress=lines.append),
                    one.provider.prepare(image),
                    other.prepare(image),
                )
            assert all(isinstance(line, str) and "\n" not in line for line in lines)
            again: list[str] = []
            await one.provider.prepare(image, progress=again.append)
            assert again == [], f"an image that is there was prepared again: {again}"

        play(self.case, work, prepare=False)

    def test_a_folder_without_an_env(self) -> None:
        """A folder that says nothing of how it is started is refused in words."""

        async def work(one: Play) -> None:
            await asyncio.to_thread((one.folder / "empty").mkdir)
            try:
                async with await one.create(image=BuildContext(one.folder / "empty")):
                    pass
            except (SandboxUnsupported, BuildFailed) as error:
                assert "empty" in str(error), f"the env is not named: {error}"
            else:
                raise AssertionError("an empty folder was deployed")

        play(self.case, work, prepare=False)

    def test_wrong_credentials(self) -> None:
        """They are `SandboxAuthFailed`, not worth a retry, and the credentials are not in the message."""
        self._fault("auth", retryable=False)

    def test_too_many_requests(self) -> None:
        """They are waited out, or `RateLimited` and worth a retry."""
        self._fault("rate_limit", retryable=True, may_work=True, timeout=15.0)

    def test_no_quota_left(self) -> None:
        """It is `QuotaExceeded`, and worth a retry."""
        self._fault("quota", retryable=True)

    def test_service_unreachable(self) -> None:
        """It is `SandboxUnavailable` or `SandboxTimeout`, and worth a retry."""
        self._fault("unavailable", retryable=True)

    def test_lost_reply(self) -> None:
        """The service creates the sandbox and its answer is lost: an error or a sandbox, and nothing is left."""

        async def work(one: Play) -> None:
            async with _Faulty(self.case, "lost_reply") as provider:
                try:
                    async with await one.create(provider) as box:
                        assert await box.status() == "running"
                except SandboxError:
                    pass
            await one.none_left(doing="a create whose answer was lost")

        play(self.case, work)

    def _fault(self, fault: Fault, *, retryable: bool, may_work: bool = False, timeout: float | None = None) -> None:
        async def work(one: Play) -> None:
            async with _Faulty(self.case, fault) as provider:
                try:
                    limit = min(timeout or self.case.timeout, self.case.timeout)
                    async with asyncio.timeout(120), await provider.create(one.spec(), timeout=limit):
                        pass
                except self.expected[fault] as error:
                    assert error.retryable is retryable, f"{type(error).__name__}.retryable is {error.retryable}"
                    return
                assert may_work, f"a create with the fault {fault} worked"

        play(self.case, work)


class _Faulty:
    """A provider whose service has a fault; start and close are part of what may fail."""

    def __init__(self, case: SandboxCase, fault: Fault) -> None:
        provider = case.faulty(fault)
        if provider is None:
            raise SkipTest(f"there is no way to make this provider's service fail with {fault!r} here")
        self._provider = provider

    async def __aenter__(self) -> SandboxProvider:
        return self._provider

    async def __aexit__(self, *_: object) -> None:
        await self._provider.close()
