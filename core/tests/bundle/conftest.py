"""Bundles written for a test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Step = dict[str, Any]


class Write(Protocol):
    """Write a bundle: ``files`` beside what every bundle of these tests has; `None` leaves a file out."""

    def __call__(self, files: Mapping[str, object] | None = None, /, *, name: str = "demo") -> Path: ...


def base_steps() -> list[Step]:
    return [
        {"id": "deploy", "type": "deploy_env", "env_id": "echo"},
        {
            "id": "config",
            "type": "apply_server_config",
            "env_id": "echo",
            "directives": [{"service": "echo", "uri": "urn:echo:start/v1", "args": {"size": 3}}],
        },
        {"id": "agent", "type": "deploy_agent", "env_ids": ["echo"]},
        {"id": "ask", "type": "prompt_agent", "prompt": "Say hello.", "prompt_id": "p", "system_prompt": "Be brief."},
        {"id": "grade", "type": "env_outcome_verifier", "env_id": "echo", "file_artifact_id": "check"},
    ]


def base_files() -> dict[str, object]:
    return {
        "README.md": "# A bundle for tests\n",
        "envs/echo/Dockerfile": 'FROM python:3.11-slim\nCMD ["python", "server.py"]\n',
        "envs/echo/env.toml": 'environment_name = "echo"\n',
        "artifacts/check/verify.py": "def verify(url):\n    return []\n",
        "tasks/play.json": base_steps(),
    }


@pytest.fixture
def steps() -> Callable[[], list[Step]]:
    """Fresh steps of a task that can be played."""
    return base_steps


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a bundle and returns its folder; strings are written as they are, bytes too, anything else as JSON."""

    def write_bundle(files: Mapping[str, object] | None = None, /, *, name: str = "demo") -> Path:
        folder = tmp_path / name
        for path, content in {**base_files(), **(files or {})}.items():
            if content is None:
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False)
                target.write_text(text, encoding="utf-8")
        return folder

    return write_bundle


@pytest.fixture
def lines() -> Callable[[Sequence[Mapping[str, Any]]], str]:
    """The text of a seed file."""

    def seed_lines(rows: Sequence[Mapping[str, Any]]) -> str:
        return "".join(json.dumps(row) + "\n" for row in rows)

    return seed_lines
