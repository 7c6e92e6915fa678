"""The stand-in of Modal's service, and providers that talk to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.sandbox import BuildContext
from agent_env.sandboxes.modal.standin.server import StandIn
from agent_env.testing.sandbox_env import write_env

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    return subprocess.run([program, "--ro-bind", "/", "/", "--unshare-net", "true"], check=False).returncode == 0


@pytest.fixture(scope="session")
def service() -> Iterator[StandIn]:
    """The stand-in; it runs sandboxes with bubblewrap."""
    if not _bubblewrap_works():
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap has to work under CI")
        pytest.skip("the stand-in runs sandboxes with bubblewrap, which does not work here")
    with StandIn() as standin:
        yield standin


@pytest.fixture
def modal(service: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    """The stand-in, with the SDK led to it; nothing may be left running in it."""
    for name in [name for name in os.environ if name.startswith("MODAL_")]:
        monkeypatch.delenv(name)
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    # The pace is shared by all processes of the user; tests have one of their own.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield service
    faults = service.faults
    for name in faults.__slots__:
        setattr(faults, name, type(getattr(faults, name))())
    assert [box.order.tags for box in service.state.boxes.running()] == []


@pytest.fixture
def env(tmp_path: Path) -> BuildContext:
    """An env's folder."""
    return BuildContext(write_env(tmp_path / "small"))
