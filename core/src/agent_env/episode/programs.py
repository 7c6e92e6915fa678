"""The programs that the criteria of a `verify_sandbox` need in its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.bundle.steps.criteria import BashSucceeds, DirExists, FileExists
from agent_env.bundle.steps.verify import VerifySandbox
from agent_env.errors import SandboxUnsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from agent_env.plugin.sandbox import Sandbox
    from agent_env.plugin.step import StepModel

_WORKS = {"bash": ["bash", "-c", "exit 0"], "test": ["test", "-e", "/"]}
"""Commands that succeed wherever there is the program."""
_NEEDS: dict[type, str] = {BashSucceeds: "bash", FileExists: "test", DirExists: "test"}
_TIMEOUT_S = 60.0
_TAIL = 200


def needed(steps: Iterable[StepModel], names: Collection[str | None]) -> set[str]:
    """What criteria on the sandboxes of these names run; `None` = the agent's own."""
    return {
        _NEEDS[type(criterion)]
        for step in steps
        if isinstance(step, VerifySandbox) and step.sandbox_name in names
        for criterion in step.criteria
        if type(criterion) in _NEEDS
    }


async def check_programs(sandbox: Sandbox, programs: Iterable[str]) -> None:
    """Run each once in a sandbox in which nobody has worked yet.

    An image without the program would fail every criterion, which is no score. What the agent breaks later is: so the
    criteria themselves do not ask.

    Raises:
        SandboxUnsupported: one cannot be run. SandboxError: the sandbox failed.
    """
    for program in sorted(programs):
        done = await sandbox.exec(_WORKS[program], cwd="/", timeout=_TIMEOUT_S)
        if done.exit_code != 0:
            said = f"; {text}" if (text := done.stderr.strip()[-_TAIL:]) else ""
            raise SandboxUnsupported(
                f"the sandbox cannot run `{program}`, which verify_sandbox needs (exit code {done.exit_code}{said}); "
                "take an image that has it"
            )
