"""Every provider of this repository on something to run on: the clouds on stand-ins, Docker on a real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.plugin.sandboxing.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from contextlib import AbstractContextManager

ROOT = Path(__file__).resolve().parents[2]
AGENTENV = str(Path(sys.executable).parent / "agentenv")
PLACES = ("process", "docker", "e2b", "aenv", "modal", "daytona")
CLOUDS = ("e2b", "aenv", "modal", "daytona")


@dataclass(frozen=True)
class Place:
    """A provider that works here.

    Attributes:
        name: the provider's name.
        options: its options, as ``--sandbox-option`` gives them.
        variables: the environment that leads it here.
        running: ids of what runs, by the service's own word; of the engine or the disk where there is no service.
        service: the stand-in, where it is one.
    """

    name: str
    options: Mapping[str, str]
    variables: Mapping[str, str]
    running: Callable[[], list[str]]
    service: Any = field(default=None, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that uses it."""
        return {**_clean(), **self.variables}

    def given(self, *sandbox: str) -> list[str]:
        """Its options for the command line."""
        pairs = [f"{self.name}.{name}={value}" for name, value in self.options.items()]
        return [*sandbox, *(word for pair in pairs for word in ("--sandbox-option", pair))]

    @property
    def arguments(self) -> list[str]:
        """Words that choose it on the command line."""
        return self.given("--sandbox", self.name)

    def agentenv(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        command = [AGENTENV, *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    def listed(self) -> list[dict[str, Any]]:
        """What ``agentenv sandbox ls`` shows of it."""
        done = self.agentenv("sandbox", "ls", "--json", *self.arguments)
        assert done.returncode == 0, done.stderr
        return [dict(entry) for entry in json.loads(done.stdout)]


def _clean() -> dict[str, str]:
    services = ("E2B_", "AENV_", "MODAL_", "DAYTONA_")
    return {name: value for name, value in os.environ.items() if not name.startswith(services)}


def _cannot(reason: str) -> None:
    """Under CI everything has to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


# -- the places -------------------------------------------------------------------------------------------------------


@contextmanager
def _process(folder: Path) -> Generator[Place]:
    state = folder / "p"

    def running() -> list[str]:
        return [str(root.parent.name) for root in state.rglob("root")]

    yield Place("process", {"state_dir": str(state)}, {}, running)


@contextmanager
def _docker(folder: Path) -> Generator[Place]:
    def docker(*arguments: str) -> str:
        return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()

    try:
        docker("version")
        subprocess.run([str(ROOT / ".ci" / "docker-up")], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        _cannot(f"there is no Docker engine; .ci/docker-up starts one ({error})")
    state = folder / "d"

    def running() -> list[str]:
        return docker("ps", "-aq", "--filter", "label=agentenv=docker", "--filter", f"volume={state}").split()

    yield Place("docker", {"state_dir": str(state)}, {}, running)


@contextmanager
def _e2b(_: Path, *, quota: int = 500) -> Generator[Place]:
    from agent_env.sandboxes.e2b.testing.server import StandIn

    try:
        service = StandIn(quota=quota)
    except UsageError as error:
        _cannot(str(error))
        raise
    with service:
        options = {"api_url": service.url, "sandbox_url": service.url, "creates_per_s": "50", "burst": "20"}
        yield Place("e2b", options, {"E2B_API_KEY": service.key}, lambda: list(service.boxes), service)


@contextmanager
def _aenv(_: Path) -> Generator[Place]:
    from agent_env.sandboxes.e2b.testing.server import StandIn

    try:
        service = StandIn(quota=500, idempotent=False)
    except UsageError as error:
        _cannot(str(error))
        raise
    with service:
        service.faults.no_uploads = True
        variables = {"AENV_API_KEY": service.key}
        yield Place("aenv", {"url": service.url}, variables, lambda: list(service.boxes), service)


@contextmanager
def _modal(_: Path) -> Generator[Place]:
    from agent_env.sandboxes.modal.standin.server import StandIn

    bwrap = shutil.which("bwrap")
    works = [bwrap or "false", "--ro-bind", "/", "/", "--unshare-net", "true"]
    if subprocess.run(works, check=False, capture_output=True).returncode != 0:
        _cannot("the stand-in of Modal runs sandboxes with bubblewrap, which does not work here")
    with StandIn() as service:

        def running() -> list[str]:
            return [box.id for box in service.state.boxes.running()]

        yield Place("modal", {"create_rate": "50"}, service.environment, running, service)


@contextmanager
def _daytona(folder: Path) -> Generator[Place]:
    from agent_env.sandboxes.daytona.testing import plainhttp
    from agent_env.sandboxes.daytona.testing.machine import usable
    from agent_env.sandboxes.daytona.testing.standin import KEY, StandIn

    if why := usable():
        _cannot(why)
    # The SDK uploads build contexts to addresses of its own choice, which it wants to be https.
    plainhttp.allow()
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\nif any('daytona' in word for word in sys.orig_argv):\n"
        f"    from {plainhttp.__name__} import allow\n    allow()\n"
    )
    with StandIn() as service:
        options = {"api_url": service.api_url, "creates_per_s": "50", "pace_dir": str(folder / "pace")}
        variables = {"DAYTONA_API_KEY": KEY, "PYTHONPATH": str(site)}
        yield Place("daytona", options, variables, lambda: list(service.living), service)


_MAKERS: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "process": _process,
    "docker": _docker,
    "e2b": _e2b,
    "aenv": _aenv,
    "modal": _modal,
    "daytona": _daytona,
}


@pytest.fixture(scope="session")
def places() -> Iterator[Callable[[str], Place]]:
    """Any of them by name, each made once; nothing may run in them at the end."""
    from contextlib import ExitStack

    made: dict[str, Place] = {}
    with ExitStack() as stack:

        def get(name: str) -> Place:
            if name not in made:
                made[name] = stack.enter_context(_MAKERS[name](stack.enter_context(ScratchFolder("ae-p"))))
            return made[name]

        yield get
        assert {name: place.running() for name, place in made.items() if place.running()} == {}


def _params(names: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.docker) if name == "docker" else name for name in names]


@pytest.fixture(params=_params(PLACES))
def place(request: pytest.FixtureRequest, places: Callable[[str], Place]) -> Place:
    """Each of them."""
    return places(request.param)


@pytest.fixture(params=_params(CLOUDS))
def cloud(request: pytest.FixtureRequest, places: Callable[[str], Place]) -> Place:
    """Each of the clouds."""
    return places(request.param)


@pytest.fixture
def small_e2b(tmp_path: Path) -> Iterator[Callable[[int], Place]]:
    """Stand-ins of E2B with a quota."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda quota: stack.enter_context(_e2b(tmp_path, quota=quota))
