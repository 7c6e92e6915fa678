"""The general form of `SandboxProvider.run_code`: a throw-away sandbox and ``exec``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import CodeError
from agent_env.plugin.sandbox import SandboxSpec

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import CodeRequest, Image, SandboxProvider

_FOLDER = "/agentenv/code"
_RUNNER = "/agentenv/runner.py"


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
        await sandbox.write(_RUNNER, request.runner.read_bytes())
        await sandbox.upload(request.folder, _FOLDER)
        done = await sandbox.exec(
            ["python", _RUNNER],
            stdin=request_json(request, _FOLDER),
            timeout=request.timeout,
            max_output=request.max_output,
        )
    if done.exit_code != 0:
        tail = (done.stderr or done.stdout)[-2000:]
        raise CodeError(f"{request.file}: {request.function}() ended with exit code {done.exit_code}: {tail}")
    return read_answer(done.stdout.encode(), request)
