"""A second process for sandbox checks: ``python -m agent_env.testing.sandbox_child REQUEST``.

It writes lines of JSON; it ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxProvider


def main() -> None:
    """The process."""
    asyncio.run(_main(json.loads(sys.argv[1])))


async def _main(request: dict[str, Any]) -> None:
    from agent_env.testing.sandbox_case import Play, SandboxCase

    case = SandboxCase(request["name"], request["options"])
    provider = case.provider()
    one = Play(case, provider, Path(request["folder"]))
    one.mark = request["mark"]
    try:
        if request["command"] == "attach":
            await _attach(provider, request["id"])
            return
        await provider.start()
        if request["command"] == "create":  # to be killed while it does
            _say({"creating": True})
            await one.create()
        box = await one.create()
        _say({"id": box.id})
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await provider.close()


async def _attach(provider: SandboxProvider, sandbox_id: str) -> None:
    """Use a sandbox that the other process made, and leave it running."""
    box = await provider.attach(sandbox_id)
    done = await box.exec(["python", "-c", "print(open('note.txt').read())"])
    await box.write("answer.txt", b"from the second process")
    endpoint = await box.endpoint()
    _say({"status": await box.status(), "out": done.stdout.strip(), "url": endpoint.url, "labels": dict(box.labels)})


def _say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
