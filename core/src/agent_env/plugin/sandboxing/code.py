"""Running code of a bundle by ``exec``: the general form of `SandboxProvider.run_code`."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import CodeError
from agent_env.plugin.sandbox import SandboxSpec
from agent_env.plugin.sandboxing import reach

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import CodeRequest, Image, Sandbox, SandboxProvider


def request_json(request: CodeRequest, folder: str) -> bytes:
    """What the runner reads from its stdin."""
    body = {
        "folder": folder,
        "file": request.file,
        "function": request.function,
        "args": list(request.args),
        "run": request.run,
    }
    return json.dumps(body).encode()


def pack(request: CodeRequest) -> bytes:
    """A tar of the runner and the Python files of the code's folder, as ``runner.py`` and ``code/``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(request.runner, "runner.py", recursive=False)
        tar.add(request.folder, "code", filter=_code_only)
    return packed.getvalue()


def _code_only(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.isdir():
        return None if info.name.endswith("__pycache__") else info
    return info if info.isreg() and info.name.endswith(".py") else None


def read_answer(raw: bytes, request: CodeRequest) -> Any:
    """The value that the runner wrote.

    Raises:
        CodeError: the code failed, or what was written is not an answer.
    """
    try:
        loaded: object = json.loads(raw)
    except ValueError:
        loaded = None
    answer = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if "ok" not in answer and "error" not in answer:
        raise CodeError(f"{request.file}: no answer from {request.function}(); output: {raw[-500:]!r}")
    if "error" in answer:
        raise CodeError(f"{request.file}: {answer['error']}")
    return answer["ok"]


async def run_code_by_exec(provider: SandboxProvider, image: Image, request: CodeRequest) -> Any:
    """Run ``request`` in a sandbox of its own made from ``image``."""
    spec = SandboxSpec(
        image=image, serves=False, network="open", ttl_s=request.timeout + 120, label=f"code {request.file}"
    )
    async with await provider.create(spec) as sandbox:
        return await run_code_in(sandbox, request)


async def run_code_in(sandbox: Sandbox, request: CodeRequest) -> Any:
    """Run ``request`` in a sandbox that has Python, by one command that leaves nothing behind.

    Loopback URLs in the arguments that `agent_env.plugin.sandboxing.reach` knows lead to the same envs there.

    Raises:
        CodeError: the code failed, or what it wrote is not an answer; SandboxError: the sandbox did.
    """
    stdin = await asyncio.to_thread(_stdin, request)
    done = await sandbox.exec(
        ["python", "-c", _child()], cwd="/", stdin=stdin, timeout=request.timeout, max_output=request.max_output
    )
    if done.exit_code != 0:
        tail = (done.stderr or done.stdout)[-2000:]
        raise CodeError(f"{request.file}: {request.function}() ended with exit code {done.exit_code}: {tail}")
    if done.truncated:
        raise CodeError(f"{request.file}: {request.function}() returned more than {request.max_output >> 20} MiB")
    return read_answer(done.stdout.encode(), request)


@functools.cache
def _child() -> str:
    return Path(__file__).with_name("code_child.py").read_text(encoding="utf-8")


def _stdin(request: CodeRequest) -> bytes:
    packed = pack(request)
    ways = reach.behind(request.args)
    head = {
        "tar": len(packed),
        "reach": {url: {"url": to.url, "headers": dict(to.headers)} for url, to in ways.items()},
    }
    return json.dumps(head).encode() + b"\n" + packed + request_json(request, "")
