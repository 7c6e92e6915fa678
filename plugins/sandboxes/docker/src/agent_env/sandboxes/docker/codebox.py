"""Code of a bundle: one container for each image, in which every request is a command of its own."""

from __future__ import annotations

import asyncio
import io
import secrets
import tarfile
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import CodeError, SandboxGone, SandboxNotFound
from agent_env.plugin.code import read_answer, request_json
from agent_env.plugin.sandbox import SandboxSpec

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandbox import CodeRequest, Image
    from agent_env.sandboxes.docker.creation import Network
    from agent_env.sandboxes.docker.provider import DockerProvider
    from agent_env.sandboxes.docker.sandbox import DockerSandbox

_TTL_S = 86400.0
_AT_ONCE = 16
_TAIL = 2000
_PYTHON = "python"
# Unpacks the code into a folder of its own, runs it in a child, and leaves nothing of it behind.
_BOOTSTRAP = """
import io, os, runpy, shutil, sys, tarfile
folder, size = sys.argv[1], int(sys.argv[2])
data = sys.stdin.buffer.read()
os.mkdir(folder, 0o700)
tarfile.open(fileobj=io.BytesIO(data[:size])).extractall(folder)
with open(folder + "/request", "wb") as file:
    file.write(data[size:])
os.chdir(folder + "/code")
pid = os.fork()
if pid == 0:
    os.dup2(os.open(folder + "/request", os.O_RDONLY), 0)
    sys.stdin = open(0)
    sys.argv = [folder + "/runner.py"]
    runpy.run_path(sys.argv[0], run_name="__main__")
    os._exit(0)
status = os.waitpid(pid, 0)[1]
shutil.rmtree(folder, ignore_errors=True)
os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
"""


class CodeBoxes:
    """Runs code beside envs, never in the sandbox of an episode."""

    def __init__(self, provider: DockerProvider) -> None:
        self._provider = provider
        self._boxes: dict[Image, asyncio.Task[DockerSandbox]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, image: Image, request: CodeRequest, *, network: Network) -> Any:
        """The function's JSON value; see `agent_env.plugin.sandbox.SandboxProvider.run_code`."""
        packed = await asyncio.to_thread(_pack, request.folder, request.runner)
        async with self._slots:
            box = await self._box(image, request.timeout, network)
            try:
                return await self._run(box, request, packed)
            except (SandboxGone, SandboxNotFound):
                # Something else ended the container that this code was to run in: once more, in a fresh one.
                self._drop(image, box)
                box = await self._box(image, request.timeout, network)
                return await self._run(box, request, packed)

    async def _run(self, box: DockerSandbox, request: CodeRequest, packed: bytes) -> Any:
        folder = f"/tmp/agentenv-code-{secrets.token_hex(6)}"
        done = await box.exec(
            [_PYTHON, "-c", _BOOTSTRAP, folder, str(len(packed))],
            cwd="/",
            stdin=packed + request_json(request, f"{folder}/code"),
            timeout=request.timeout,
            max_output=request.max_output,
        )
        if done.exit_code != 0:
            tail = (done.stderr or done.stdout)[-_TAIL:]
            raise CodeError(f"{request.file}: {request.function}() ended with exit code {done.exit_code}: {tail}")
        if done.truncated:
            raise CodeError(f"{request.file}: {request.function}() returned more than {request.max_output >> 20} MiB")
        return read_answer(done.stdout.encode(), request)

    async def _box(self, image: Image, timeout: float, network: Network) -> DockerSandbox:
        task = self._boxes.get(image)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif (task.result().expires_at or 0) < time.time() + timeout + 60 or task.result().closed:
                self._drop(image, task.result())
                task = None
        if task is None:
            spec = SandboxSpec(image=image, serves=False, ttl_s=_TTL_S, label="code", labels={"role": "code"})
            work = self._provider.create_in(spec, network)
            task = self._boxes[image] = asyncio.create_task(work, name="docker code box")
        return await asyncio.shield(task)

    def _drop(self, image: Image, box: DockerSandbox) -> None:
        """Use it no more; commands that still run in it have their deadline, so it ends when they are past it."""
        task = self._boxes.get(image)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and task.result() is box:
            del self._boxes[image]


def _pack(folder: Path, runner: Path) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        tar.add(runner, "runner.py", recursive=False)
        tar.add(folder, "code", filter=_code_only)
    return target.getvalue()


def _code_only(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.isdir():
        return None if info.name.endswith("__pycache__") else info
    return info if info.isreg() and info.name.endswith(".py") else None
