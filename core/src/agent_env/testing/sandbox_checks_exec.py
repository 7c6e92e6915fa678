"""Sandbox checks: commands, and code of a bundle."""

# ruff: noqa: PT017 - the checks run without pytest

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

from agent_env.errors import CodeError, SandboxError, SandboxTimeout
from agent_env.plugin.sandbox import CodeRequest
from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.testing.checks import Checks
from agent_env.testing.sandbox_case import SandboxCase, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.plugin.sandbox import Sandbox
    from agent_env.testing.sandbox_case import Play

_VERIFY = """
import os, time

def verify(a, b=1):
    return {"sum": a + b, "helper": os.path.exists(os.path.join(os.path.dirname(__file__), "helper.py"))}

def broken():
    raise ValueError("broken on purpose")

def hangs():
    time.sleep(600)

def nonsense():
    return object()

async def later(text):
    return text * 2
"""
# A child in a session of its own writes for as long as it lives.
_TICKER = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    while True:
        with open(sys.argv[1], "a") as file:
            file.write("x")
        time.sleep(0.05)
time.sleep(600)
"""


class ExecChecks(Checks):
    """Commands."""

    case: SandboxCase

    def _exec(self, work: Callable[[Play, Sandbox], Awaitable[None]]) -> None:
        async def with_box(one: Play) -> None:
            if not one.provider.capabilities.exec:
                raise SkipTest("the provider runs no commands")
            async with await one.create(serves=False) as box:
                await work(one, box)

        play(self.case, with_box)

    def test_exec_tells_how_a_command_ended(self) -> None:
        """Exit code, stdout and stderr apart, signals as 128 + n; a failure is no exception."""

        async def work(_: Play, box: Sandbox) -> None:
            code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"
            done = await box.exec(["python", "-c", code])
            assert (done.exit_code, done.stdout, done.stderr) == (5, "out\n", "err\n")
            assert not done.truncated
            done = await box.exec(["python", "-c", "import os; os.kill(os.getpid(), 9)"])
            assert done.exit_code == 137, f"a command that signal 9 ended has exit code {done.exit_code}"

        self._exec(work)

    def test_exec_takes_arguments_as_they_are(self) -> None:
        """No shell looks at them."""

        async def work(_: Play, box: Sandbox) -> None:
            words = ["a b", "$HOME", "*", "'quoted' \"twice\"", "é", "", "-x;rm"]
            done = await box.exec(["python", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words])
            assert done.stdout.strip() == json.dumps(words), f"they arrived as {done.stdout!r} {done.stderr[-300:]}"

        self._exec(work)

    def test_exec_env_and_folder(self) -> None:
        """``env`` and ``cwd`` hold for that command."""

        async def work(_: Play, box: Sandbox) -> None:
            code = "import os; print(os.environ['NAME'], os.getcwd())"
            done = await box.exec(["python", "-c", code], env={"NAME": "x=y"}, cwd="/tmp")
            assert done.stdout.split()[0] == "x=y"
            assert done.stdout.strip().endswith("/tmp"), f"it ran in {done.stdout!r}"

        self._exec(work)

    def test_exec_stdin(self) -> None:
        """``stdin`` is given whole and ends; without it stdin is empty."""

        async def work(_: Play, box: Sandbox) -> None:
            code = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
            for data in (b"", b"line\n", bytes(range(256)) * 8192):
                done = await box.exec(["python", "-c", code], stdin=data)
                assert done.stdout.strip() == hashlib.sha256(data).hexdigest(), f"{len(data)} bytes got lost"
            done = await box.exec(["python", "-c", "import sys; print(len(sys.stdin.read()))"], timeout=30)
            assert done.stdout == "0\n"

        self._exec(work)

    def test_exec_output_is_cut(self) -> None:
        """Past ``max_output`` bytes the rest is dropped, the command goes on, and ``truncated`` says so."""

        async def work(_: Play, box: Sandbox) -> None:
            code = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('end'); sys.exit(4)"
            done = await box.exec(["python", "-c", code], max_output=1000)
            assert done.exit_code == 4
            assert done.truncated
            assert len(done.stdout) <= 1000
            assert done.stderr == "end"
            done = await box.exec(["python", "-c", "print('x' * 999)"], max_output=1000)
            assert (len(done.stdout), done.truncated) == (1000, False)
            done = await box.exec(["python", "-c", "import os; os.write(1, b'\\xff\\xfe')"])
            assert done.stdout, "bytes that are no UTF-8 got lost"

        self._exec(work)

    def test_exec_deadline_kills_everything(self) -> None:
        """Past ``timeout`` it raises `SandboxTimeout` and the command is dead with all its children."""

        async def work(_: Play, box: Sandbox) -> None:
            try:
                await box.exec(["python", "-c", _TICKER, "/tmp/ticks"], timeout=2)
            except SandboxTimeout:
                pass
            else:
                raise AssertionError("a command outlived its deadline")
            await _has_stopped(box)

        self._exec(work)

    def test_exec_cancelled_kills_everything(self) -> None:
        """A caller that is cancelled leaves nothing of the command running."""

        async def work(_: Play, box: Sandbox) -> None:
            task = asyncio.ensure_future(box.exec(["python", "-c", _TICKER, "/tmp/ticks"], timeout=60))
            for _round in range(100):
                await asyncio.sleep(0.1)
                if (await box.exec(["test", "-s", "/tmp/ticks"])).exit_code == 0:
                    break
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled(), "the cancelled exec was not cancelled"
            await _has_stopped(box)

        self._exec(work)

    def test_exec_does_not_wait_for_what_it_left(self) -> None:
        """A child left in the background, with the output open, does not keep the command from ending."""

        async def work(_: Play, box: Sandbox) -> None:
            code = "import subprocess; subprocess.Popen(['sleep', '30']); print('done')"
            done = await box.exec(["python", "-c", code], timeout=20)
            assert (done.exit_code, done.stdout) == (0, "done\n")

        self._exec(work)

    def test_exec_of_a_program_that_is_not_there(self) -> None:
        """It is an error in words or a result that is no success, and the sandbox lives on."""

        async def work(_: Play, box: Sandbox) -> None:
            try:
                done = await box.exec(["no-such-program-here"], timeout=20)
                assert done.exit_code != 0
            except SandboxError as error:
                assert "no-such-program-here" in str(error), f"the program is not named: {error}"
            assert (await box.exec(["python", "-c", "print(2)"])).stdout == "2\n"

        self._exec(work)

    def test_exec_many_at_once(self) -> None:
        """Commands of one sandbox run side by side and do not mix."""

        async def work(_: Play, box: Sandbox) -> None:
            results = await asyncio.gather(*(box.exec(["python", "-c", f"print({number})"]) for number in range(8)))
            assert [done.stdout for done in results] == [f"{number}\n" for number in range(8)]

        self._exec(work)

    def test_code_of_a_bundle(self) -> None:
        """`run_code` gives the function's value; its failures are `CodeError`, its deadline `SandboxTimeout`."""
        from agent_env.episode import code_runner

        async def work(one: Play) -> None:
            with ScratchFolder("agentenv-checks") as folder:
                await asyncio.to_thread((folder / "verify.py").write_text, _VERIFY)
                await asyncio.to_thread((folder / "helper.py").write_text, "")

                async def run(function: str, *args: object, timeout: float = 60.0) -> object:
                    runner = Path(code_runner.__file__)
                    request = CodeRequest(folder, "verify.py", function, args, runner=runner, timeout=timeout)
                    return await one.provider.run_code(one.image, request)

                assert await run("verify", 40, 2) == {"sum": 42, "helper": True}
                assert await run("later", "ab") == "abab"
                for function, word in (("broken", "broken on purpose"), ("nonsense", "JSON"), ("absent", "absent")):
                    try:
                        await run(function)
                    except CodeError as error:
                        assert word in str(error), f"{function}: {error}"
                    else:
                        raise AssertionError(f"{function}() gave a value")
                try:
                    await run("hangs", timeout=3)
                except SandboxTimeout:
                    pass
                else:
                    raise AssertionError("code outlived its deadline")
                assert await run("verify", 1) == {"sum": 2, "helper": True}

        play(self.case, work)


async def _has_stopped(box: Sandbox) -> None:
    """The ticker's file grows no more."""
    sizes: list[str] = []
    for _ in range(20):
        sizes.append((await box.exec(["wc", "-c", "/tmp/ticks"])).stdout.split()[0])
        if len(sizes) > 1 and sizes[-1] == sizes[-2]:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"a child of the command still runs; its file has {', '.join(sizes)} bytes")
