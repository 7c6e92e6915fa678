"""Running code of a bundle inside a sandbox of the episode."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from agent_env.errors import CodeError
from agent_env.plugin.sandboxing.code import read_answer, request_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.sandbox import CodeRequest, Sandbox

_TAIL = 2000


async def run_in_sandbox(sandbox: Sandbox, request: CodeRequest, files: Mapping[str, bytes]) -> Any:
    """Write the files into the sandbox and run the request there, with the sandbox's own ``python3``.

    Raises:
        CodeError: the code failed; SandboxError: the sandbox did.
    """
    base = f"/tmp/agentenv-code-{uuid.uuid4().hex[:12]}"
    await sandbox.write(f"{base}/runner.py", request.runner.read_bytes())
    for name, data in files.items():
        await sandbox.write(f"{base}/code/{name}", data)
    done = await sandbox.exec(
        ["python3", "runner.py"],
        cwd=base,
        stdin=request_json(request, "code"),
        timeout=request.timeout,
        max_output=request.max_output,
    )
    await sandbox.exec(["rm", "-rf", f".{base}"], cwd="/", timeout=30)
    if done.exit_code != 0:
        tail = (done.stderr or done.stdout)[-_TAIL:]
        raise CodeError(f"{request.file}: {request.function}() ended with exit code {done.exit_code}: {tail}")
    if done.truncated:
        raise CodeError(f"{request.file}: {request.function}() returned more than {request.max_output >> 20} MiB")
    return read_answer(done.stdout.encode(), request)
