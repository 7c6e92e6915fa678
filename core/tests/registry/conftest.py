"""Plugins that exist as files: a fake installed distribution on ``sys.path``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": "..."})``."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    before = set(sys.modules)

    def put(
        distribution: str,
        version: str,
        entry_points: dict[str, str] | str,
        files: dict[str, str] | None = None,
        metadata: str = "",
    ) -> Path:
        info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{metadata}", encoding="utf-8"
        )
        lines = (
            entry_points
            if isinstance(entry_points, str)
            else "[agentenv]\n" + "".join(f"{name} = {value}\n" for name, value in entry_points.items())
        )
        (info / "entry_points.txt").write_text(lines, encoding="utf-8")
        for name, text in (files or {}).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
        importlib.invalidate_caches()
        return folder

    yield put
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]


@pytest.fixture
def reward_hooks() -> Callable[..., str]:
    """Text of a hook module that offers rewards of these names."""

    def text(*names: str, before: str = "") -> str:
        infos = ", ".join(f"RewardInfo({name!r}, 'Says {name}', 'json:loads')" for name in names)
        return (
            f"from agent_env.plugin import RewardInfo, hookimpl\n{before}\n"
            f"@hookimpl\ndef agentenv_rewards():\n    return [{infos}]\n"
        )

    return text
