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
    """Runs ``command`` in a sandbox and scores its exit code, or the number that it wrote to ``reward_path``.

    A sandbox that a step deploys is the container itself, so ``container_name`` only names it. ``user`` is the user
    that the sandbox has, ``root`` counts as not asked for. ``timeout_sec`` is in seconds. A relative ``reward_path``
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
