"""The step that scores by the tests of a project in a sandbox."""

from __future__ import annotations

import posixpath
from typing import Annotated, ClassVar

from agent_env.bundle.steps.fields import Many, Positive, Text  # noqa: TC001, TC002 - pydantic reads them
from agent_env.bundle.steps.verify import ScoringModel
from pydantic import AfterValidator


def _inside(path: str) -> str:
    parts = path.split("/")
    if ".." in parts or posixpath.normpath(path) in {"/", "."}:
        raise ValueError("is a file in the sandbox, so its path has no '..' and is no folder")
    return path


class RunContainerUnitTestsVerifier(ScoringModel):
    """Runs ``command`` in the shell of a sandbox. Without ``reward_path`` its exit code scores: 0 is 1.0, else 0.0.

    With ``reward_path`` the number in that file scores, held to 0..1, whatever the exit code; what the file held
    before is removed. Tests that took longer than ``timeout_sec`` (exit codes 124 and 137 too), a command that could
    not be run, a setup command that failed and a reward file without a number fail the episode: they score nothing.
    A sandbox that a step deploys is the container itself, so ``container_name`` only names it. ``user`` is the user
    that the sandbox has; another one is refused, and ``root`` counts as not asked for. A relative ``reward_path``
    starts where the command starts.
    """

    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"container_name", "result_paths"})

    sandbox_name: Text
    container_name: Text
    command: Text
    setup_commands: Many[Text] | None = None
    user: Text = "root"
    timeout_sec: Positive = 300
    env_vars: dict[str, str] | None = None
    result_paths: Many[Text] | None = None
    reward_path: Annotated[Text, AfterValidator(_inside)] | None = None
