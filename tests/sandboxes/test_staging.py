"""A build context is staged in a passing folder, of which nothing may stay, whatever becomes of the build."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode.providers import Providers
from agent_env.plugin.building.context import Context as SharedContext
from agent_env.plugin.sandbox import BuildContext
from agent_env.registry import default_registry
from agent_env.testing.sandbox_env import DOCKERFILE, write_env

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp directory of this test's own."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


class Slow:
    """Staging that takes until it is told to end, and then still writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, context: type[Any]) -> None:
        self.begun, self.end = threading.Event(), threading.Event()
        real = context.stage

        def stage(this: Any, folder: Path) -> Any:
            self.begun.set()
            assert self.end.wait(60)
            folder.mkdir(exist_ok=True)
            return real(this, folder)

        monkeypatch.setattr(context, "stage", stage)


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_build_that_is_given_up_while_its_files_are_staged_leaves_none(
    cloud: Place, temp: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    from agent_env.sandboxes.e2b.context import Context as OwnContext

    slow = Slow(monkeypatch, OwnContext if cloud.name in {"e2b", "aenv"} else SharedContext)
    # An env that no other test builds, so that it is not there already.
    image = BuildContext(write_env(temp / "staged", dockerfile=f"{DOCKERFILE}# {cloud.name} {how}\n"))
    for variable, value in cloud.variables.items():
        monkeypatch.setenv(variable, value)

    async def work() -> None:
        provider = Providers(default_registry(), cloud.name, {cloud.name: dict(cloud.options)}).make(None)
        await provider.start()
        preparing = asyncio.create_task(provider.prepare(image))
        await asyncio.to_thread(slow.begun.wait, 60)
        if how == "cancelled":
            preparing.cancel()
        closing = asyncio.create_task(provider.close())
        await asyncio.sleep(0.1)
        slow.end.set()
        await closing
        await asyncio.gather(preparing, return_exceptions=True)

    asyncio.run(work())
    left = [path.name for path in temp.iterdir() if path.name not in {image.path.name} and "pace" not in path.name]
    assert left == []
