"""Running a command in a sandbox: input, two outputs, a deadline past which everything of it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING

from agent_env.errors import SandboxError, SandboxGone, SandboxTimeout
from agent_env.plugin.sandbox import ExecResult
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.daytona import files, scripts
from agent_env.sandboxes.daytona.sdk import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.sdk import Remote

_SLICE_S = 20.0
"""One request waits no longer than this: proxies cut what is silent for long."""
_GRACE_S = 15
_REPEAT_S = 30.0


async def shell(api: Api, remote: Remote, words: str, *, seconds: float = 0.0) -> str:
    """Output of an uploaded script, which may be called twice: an answer that is lost is asked for again.

    Args:
        api: the client.
        remote: the sandbox.
        words: path and arguments, without characters that a shell knows.
        seconds: how long the script may take to answer.
    """
    limit = math.ceil(seconds) + _GRACE_S
    answer = await api.call(
        lambda: remote.process.exec(f"sh {words}", timeout=limit),
        f"sandbox {remote.id}: command",
        timeout=limit + _REPEAT_S,
        sandbox_id=remote.id,
    )
    return answer.result


async def run(
    api: Api,
    remote: Remote,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None,
    timeout: float,
    max_output: int,
    tasks: Tasks,
) -> ExecResult:
    """Run ``argv`` to its end.

    Raises:
        SandboxTimeout: it ran longer than ``timeout`` and was killed; SandboxError: the sandbox ended, or cannot be
        asked.
    """
    exec_id = lease.new_id()
    folder = f"{scripts.FOLDER}/{exec_id}"
    path = f"{folder}/run"
    script = scripts.command(exec_id, argv, cwd=cwd, env=env, stdin=stdin is not None, max_output=max_output)
    uploads = {path: script.encode()}
    if stdin is not None:
        uploads[f"{folder}/in"] = stdin
    await files.put(api, remote, uploads)
    try:
        answer = await _wait(api, remote, path, exec_id, timeout)
    except BaseException:
        kill = tasks.start(shell(api, remote, f"{path} kill"), f"daytona kill {exec_id}")
        if not _cancelled():
            with contextlib.suppress(SandboxError):
                await asyncio.shield(kill)
        raise
    if answer is None:
        await asyncio.shield(tasks.start(_kill(api, remote, path), f"daytona kill {exec_id}"))
        raise SandboxTimeout(
            f"command {argv[0]!r} ran longer than {timeout:g} s and was killed",
            provider=NAME,
            retryable=False,
            sandbox_id=remote.id,
        )
    try:
        return await _result(api, remote, answer, exec_id, max_output)
    finally:
        tasks.start(shell(api, remote, f"{path} end"), f"daytona clean {exec_id}")


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _kill(api: Api, remote: Remote, path: str) -> None:
    await shell(api, remote, f"{path} kill")


async def _wait(api: Api, remote: Remote, path: str, exec_id: str, timeout: float) -> str | None:
    """The script's last answer; `None` when the command still runs after ``timeout`` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    word = "start"
    while True:
        seconds = max(0.0, min(_SLICE_S, end - loop.time()))
        answer = await shell(api, remote, f"{path} {word} {scripts.rounds(seconds)}", seconds=seconds)
        place = answer.find(f"{exec_id} ")
        said = answer[place:].split(None, 2)[1:2] if place >= 0 else []
        if said == ["ended"]:
            return answer[place:]
        if said != ["running"]:
            raise SandboxGone(
                f"sandbox {remote.id}: the command's files are gone: {answer.strip()[-300:] or 'no answer'}",
                provider=NAME,
                sandbox_id=remote.id,
            )
        if loop.time() >= end:
            return None
        word = "wait"


async def _result(api: Api, remote: Remote, answer: str, exec_id: str, max_output: int) -> ExecResult:
    head, _, rest = answer.partition("\n")
    code, out_size, err_size = (int(word) for word in head.split()[2:5])
    if out_size <= scripts.INLINE and err_size <= scripts.INLINE:
        mark = f"\n{exec_id}\n"
        out, _, rest = rest.partition(mark)
        err, _, _ = rest.partition(mark)
    else:
        folder = f"{scripts.FOLDER}/{exec_id}"
        out = await _download(api, remote, f"{folder}/out", out_size)
        err = await _download(api, remote, f"{folder}/err", err_size)
    return ExecResult(
        exit_code=code,
        stdout=_cut(out, max_output),
        stderr=_cut(err, max_output),
        truncated=out_size > max_output or err_size > max_output,
    )


async def _download(api: Api, remote: Remote, path: str, size: int) -> str:
    if size == 0:
        return ""
    return (await files.get(api, remote, path, size + 1)).decode(errors="replace")


def _cut(text: str, most: int) -> str:
    """Text whose bytes are at most ``most``."""
    data = text.encode()
    return text if len(data) <= most else data[:most].decode(errors="ignore")
