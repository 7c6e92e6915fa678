"""Several reapers at work on one folder: what another one was quicker with is no error, and all is gone."""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.process import reaper
from agent_env.sandboxes.process.keeper.files import read_json, remove_tree

if TYPE_CHECKING:
    from pathlib import Path

DEAD = {**lease.owner(), "pid": 2**22 + 1}
ELSEWHERE = {**DEAD, "host": f"not-{socket.gethostname()}", "boot": "0"}


def group(root: Path, name: str, owner: dict[str, Any] | None) -> Path:
    """What a server run leaves: two sandboxes, one of which holds a forked one; no owner = it was killed at once."""
    folder = root / name
    for box in ("a/kids/1", "a", "b"):
        (folder / box / "root").mkdir(parents=True, exist_ok=True)
        meta = {"id": f"{name}-{box.replace('/', '-')}", "expires_at": 1.0, "created_at": 0.0, "owner": owner or {}}
        (folder / box / "meta.json").write_text(json.dumps(meta))
    if owner is not None:
        (folder / "owner.json").write_text(json.dumps(owner))
    long_ago = time.time() - 3600
    os.utime(folder, (long_ago, long_ago))
    return folder


def test_many_reapers_at_once(tmp_path: Path) -> None:
    for number in range(60):
        group(tmp_path, f"g{number:02}", (DEAD, ELSEWHERE, None)[number % 3])
    with ThreadPoolExecutor(8) as pool:
        for work in [pool.submit(reaper.reap, tmp_path) for _ in range(8)]:
            work.result()
    assert reaper.records(tmp_path) == []
    left = [json.loads((folder / "owner.json").read_text()) for folder in tmp_path.iterdir()]
    assert all(owner == ELSEWHERE for owner in left), "their folders stay until nobody touched them for a while"


@pytest.mark.parametrize("owner", [DEAD, ELSEWHERE, None], ids=["dead", "elsewhere", "none"])
@pytest.mark.parametrize("moment", ["owner.json", "meta.json"])
def test_another_reaper_is_quicker(
    owner: dict[str, Any] | None, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = group(tmp_path, "g", owner)

    def slow(path: str) -> dict[str, Any] | None:
        found = read_json(path)
        if path.endswith(moment):
            remove_tree(str(folder))
        return found

    monkeypatch.setattr(reaper, "read_json", slow)
    reaper.reap(tmp_path)
    assert reaper.records(tmp_path) == []
