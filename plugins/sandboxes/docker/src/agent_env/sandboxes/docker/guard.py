"""A small process that waits for its server's end, and ends the server's containers when that was no good-bye.

It reads one line with what it has to know, then waits; nothing heavy is imported before it has work.
"""

from __future__ import annotations

import json
import sys
from typing import Any

GOOD_BYE = "bye"
_ROUNDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


def main() -> None:
    """The process."""
    about = json.loads(sys.stdin.readline() or "null")
    if about is None or sys.stdin.readline().strip() == GOOD_BYE:
        return
    import asyncio

    asyncio.run(_sweep(about))


async def _sweep(about: dict[str, Any]) -> None:
    """End what the dead server owned: several times, because the engine may still be at work for it."""
    import asyncio
    from pathlib import Path

    from agent_env.errors import SandboxError
    from agent_env.sandboxes.docker import containers, labels, state
    from agent_env.sandboxes.docker.engine import Engine

    engine = Engine(about["host"])
    try:
        for pause in _ROUNDS:
            await asyncio.sleep(pause)
            try:
                found = await containers.listing(engine, labels.filters())
                for box in found:
                    if box.owner == about["owner"]:
                        await containers.remove(engine, box.id)
                        state.remove_folder(Path(about["root"]), box.create_id)
            except SandboxError:
                continue
    finally:
        await engine.close()


if __name__ == "__main__":
    main()
