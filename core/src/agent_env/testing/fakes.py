"""Fakes for the tests of plugins: an episode as a step sees it, and a sandbox that is a dict of files.

An env of functions is `agent_env.testing.in_process.InProcessEnv`; a model of functions is
`agent_env.testing.standin.StandInModel`.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, cast

from agent_env.errors import SandboxUnsupported, UsageError
from agent_env.plugin.sandbox import Endpoint, ExecResult, Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.plugin.step import EnvHandle


@dataclass
class FakeEpisode:
    """An episode for one step, an `agent_env.plugin.step.EpisodeContext`; it keeps the rules of the real one.

    Attributes:
        replies: what the agent says, one for each prompt; a prompt too many is a `UsageError`.
        envs: by the names that steps use.
        sandboxes: likewise.
        scoring: ids of steps that may record a score; `None` = any.
        prompts: the prompts that were given.
        scores: what was recorded.
        rows: the rows of each score.
    """

    id: str = "episode"
    task_id: str = "task"
    bundle: Path = field(default_factory=Path)
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    replies: Sequence[str] = ()
    envs: Mapping[str, EnvHandle] = field(default_factory=dict[str, "EnvHandle"])
    sandboxes: Mapping[str, Sandbox] = field(default_factory=dict[str, Sandbox])
    scoring: Sequence[str] | None = None
    prompts: list[str] = field(default_factory=list[str])
    scores: dict[str, float] = field(default_factory=dict[str, float])
    rows: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, "Sequence[Mapping[str, Any]]"])

    async def prompt(self, prompt: str, *, system_prompt: str | None = None, prompt_id: str | None = None) -> str:
        """The next of ``replies``."""
        del system_prompt, prompt_id
        if len(self.prompts) == len(self.replies):
            raise UsageError(f"the fake episode has {len(self.replies)} replies and was given another prompt")
        self.prompts.append(prompt)
        return self.replies[len(self.prompts) - 1]

    def env(self, name: str) -> EnvHandle:
        """One of ``envs``."""
        if name not in self.envs:
            raise UsageError(f"env {name!r} is not deployed; deployed: {', '.join(self.envs) or 'none'}")
        return self.envs[name]

    def sandbox(self, name: str) -> Sandbox:
        """One of ``sandboxes``."""
        if name not in self.sandboxes:
            raise UsageError(f"no sandbox named {name!r} is deployed; deployed: {', '.join(self.sandboxes) or 'none'}")
        return self.sandboxes[name]

    def record_score(self, step_id: str, score: float, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        """Keep the score.

        Raises:
            UsageError: as the engine: no scoring step, a second score, or no finite number.
        """
        if self.scoring is not None and step_id not in self.scoring:
            raise UsageError(f"step {step_id!r} is no scoring step: its type must say `scores = True`")
        if step_id in self.scores:
            raise UsageError(f"step {step_id!r} has recorded a score already")
        given = cast("object", score)
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            raise UsageError(f"step {step_id!r}: a score must be a finite number, got {score!r}")
        self.scores[step_id] = float(score)
        self.rows[step_id] = tuple(rows)


class FakeSandbox(Sandbox):
    """Files in a dict; commands are answered by a function.

    Args:
        run: ``run(argv, files) -> ExecResult``; without it `exec` is refused.
        files: what is there at first, by absolute path.
        id: the sandbox's id.
    """

    def __init__(
        self,
        run: Callable[[Sequence[str], dict[str, bytes]], ExecResult] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        id: str = "fake",  # noqa: A002
    ) -> None:
        self.id = id
        self.labels = {}
        self.isolation = "none"
        self.expires_at = None
        self.files: dict[str, bytes] = dict(files or {})
        self.closed = False
        self._run = run

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = 60.0,
        max_output: int = 1024 * 1024,
    ) -> ExecResult:
        del cwd, env, stdin, timeout, max_output
        if self._run is None:
            raise SandboxUnsupported("this fake sandbox runs no commands")
        return self._run(argv, self.files)

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        if path not in self.files:
            if any(name.startswith(f"{path.rstrip('/')}/") for name in self.files):
                raise IsADirectoryError(path)
            raise FileNotFoundError(path)
        if len(self.files[path]) > max_bytes:
            raise ValueError(f"{path} is larger than {max_bytes} bytes")
        return self.files[path]

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        del mode
        self.files[path] = data

    async def upload(self, local: Path, remote: str) -> None:
        self.files.update(await asyncio.to_thread(_read_tree, local, remote))

    async def download(self, remote: str, local: Path) -> None:
        found = {name: data for name, data in self.files.items() if name == remote or name.startswith(f"{remote}/")}
        if not found:
            raise FileNotFoundError(remote)
        await asyncio.to_thread(_write_tree, found, remote, local)

    async def endpoint(self) -> Endpoint:
        raise SandboxUnsupported("this fake sandbox serves nothing")

    async def extend(self, ttl_s: float) -> None:
        del ttl_s

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        return "gone" if self.closed else "running"

    async def exit_code(self) -> int | None:
        return None

    async def logs(self, tail: int = 4096) -> str:
        del tail
        return ""

    async def close(self) -> None:
        self.closed = True


def _read_tree(local: Path, remote: str) -> dict[str, bytes]:
    if local.is_file():
        return {remote: local.read_bytes()}
    files = (path for path in local.rglob("*") if path.is_file())
    return {str(PurePosixPath(remote) / path.relative_to(local).as_posix()): path.read_bytes() for path in files}


def _write_tree(files: Mapping[str, bytes], remote: str, local: Path) -> None:
    for name, data in files.items():
        target = local if name == remote else local / PurePosixPath(name).relative_to(remote)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
