"""An engine that is elsewhere: everything goes through the connection to it, a verifier's questions to the env too.

`tcp` is this machine's engine behind a TCP port, so that nothing of this machine is shared with it. `tls` is a second
engine with a network, processes, a host name and files of its own, which takes a while to set up.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import code_runner
from agent_env.errors import SandboxTimeout
from agent_env.plugin.sandbox import CodeRequest, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider
from agent_env.testing.sandbox_suite import SandboxCase, SandboxSuite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_env.plugin.sandbox import BuildContext

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
GRIDSIM = str(ROOT / "examples" / "gridsim")
AGENTENV = str(Path(sys.executable).parent / "agentenv")
REAL = pytest.mark.skipif(
    os.environ.get("AGENTENV_TEST_ALL") != "true", reason="takes a minute; AGENTENV_TEST_ALL=true runs it"
)
RUNNER = Path(code_runner.__file__)
CODE = """
import os, time, urllib.request

def get(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as reply:
        return reply.read().decode()

def name(url, own="", other=""):
    "Its env's name, and that of the other's env, when it knows its URL."
    return [url, get(url, "/env?name=NAME"), exchange(url, own, other) if own else ""]

def exchange(url, own, other):
    with open("/tmp/~" + own, "w") as file:
        file.write(url)
    os.rename("/tmp/~" + own, "/tmp/" + own)
    while not os.path.exists("/tmp/" + other):
        time.sleep(0.02)
    try:
        stolen = get(open("/tmp/" + other).read(), "/env?name=NAME")
    except OSError as error:
        stolen = "refused"
    open("/tmp/tried-" + own, "w").close()
    while not os.path.exists("/tmp/tried-" + other):
        time.sleep(0.02)
    return stolen

def hold(url):
    while True:
        get(url, "/say?text=held")
        time.sleep(0.2)
"""


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The second engine; what leads to it."""
    folder = tmp_path_factory.mktemp("engine")
    number = 77 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    command = [str(HERE / "remote-engine"), str(folder), str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            host = process.stdout.readline().strip()
            assert host.startswith("tcp://"), (folder / "dockerd.log").read_text()[-2000:]
            found = {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder / "certs")}
            making = [sys.executable, str(ROOT / ".ci" / "python-image")]
            subprocess.run(making, env={**os.environ, **found}, check=True, capture_output=True)
            yield found
            left = docker(found, "ps", "-aq", "--filter", "label=agentenv=docker")
            assert left == ""
        finally:
            process.stdin.close()
            process.wait(180)


def docker(variables: dict[str, str], *arguments: str) -> str:
    command = ["docker", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **variables}
    ).stdout.strip()


@pytest.fixture(params=["tcp", pytest.param("tls", marks=REAL)])
def away(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Each of the two, as the environment of this process names it."""
    if request.param == "tcp":
        return {"DOCKER_HOST": request.getfixturevalue("over_tcp")}
    found: dict[str, str] = request.getfixturevalue("elsewhere")
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


# -- code -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def request_of(tmp_path: Path) -> Callable[..., CodeRequest]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "verify.py").write_text(CODE)

    def make(function: str, *args: Any, timeout: float = 60) -> CodeRequest:
        return CodeRequest(tmp_path / "code", "verify.py", function, args, RUNNER, timeout=timeout)

    return make


def inside(away: dict[str, str], role: str) -> list[str]:
    """Commands that run in the containers for code, but for what is always there."""
    found: list[str] = []
    for container in docker(away, "ps", "-q", "--filter", f"label=agentenv.label.role={role}").split():
        lines = docker(away, "top", container, "-eo", "pid,stat,args").splitlines()[1:]
        processes = [line.split(maxsplit=2) for line in lines]
        found += [words[2][:200] for words in processes if not words[1].startswith("Z")]
    return found


async def at_rest(away: dict[str, str]) -> None:
    """Nothing runs in the container for code but its init and its one server."""
    async with asyncio.timeout(30):
        while len(await asyncio.to_thread(inside, away, "code")) > 2:  # noqa: ASYNC110 - the engine's
            await asyncio.sleep(0.1)


def test_code_reaches_its_own_env(
    away: dict[str, str], env_folder: Callable[..., BuildContext], request_of: Callable[..., CodeRequest]
) -> None:
    """Two verifications at once in one container without a network: each is led to its own episode's env only."""
    del away
    from agent_env.env.relay import Relay

    async def grade(provider: DockerProvider, image: BuildContext, name: str, other: str) -> tuple[str, str]:
        async with (
            await provider.create(SandboxSpec(image=image, env={"NAME": name})) as box,
            Relay(await box.endpoint()) as relay,
        ):
            url, own, stolen = await provider.run_code(image, request_of("name", relay.url, name, other))
            assert url.startswith("http://127.0.0.1:")
            assert url != relay.url
            return json.loads(own), stolen

    async def play() -> None:
        image = env_folder()
        async with DockerProvider() as provider:
            assert not provider.shares_loopback
            both = [grade(provider, image, "a", "b"), grade(provider, image, "b", "a")]
            assert await asyncio.gather(*both) == [("a", "refused"), ("b", "refused")]

    asyncio.run(play())


@pytest.mark.parametrize("how", ["cancelled", pytest.param("late", marks=REAL)])
def test_code_that_is_given_up_ends(
    how: str, away: dict[str, str], env_folder: Callable[..., BuildContext], request_of: Callable[..., CodeRequest]
) -> None:
    from agent_env.env.relay import Relay

    async def play() -> None:
        image = env_folder()
        async with (
            DockerProvider() as provider,
            await provider.create(SandboxSpec(image=image)) as box,
            Relay(await box.endpoint()) as relay,
        ):
            asking = request_of("hold", relay.url, timeout=5 if how == "late" else 60)
            task = asyncio.create_task(provider.run_code(image, asking))
            while "held" not in await box.logs():
                assert not task.done(), task.result()
                await asyncio.sleep(0.1)
            if how == "cancelled":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with pytest.raises(SandboxTimeout):
                    await task
            await at_rest(away)
            assert json.loads((await provider.run_code(image, request_of("name", relay.url)))[1]) is None

    asyncio.run(play())


HOLDER = """
import asyncio, sys
from pathlib import Path
from agent_env.env.relay import Relay
from agent_env.plugin.sandbox import BuildContext, CodeRequest, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider

async def main(folder, code, runner, guard):
    image = BuildContext(Path(folder))
    async with DockerProvider(guard=guard == "guard") as provider, await provider.create(
        SandboxSpec(image=image, labels={"role": "held"})
    ) as box, Relay(await box.endpoint()) as relay:
        request = CodeRequest(Path(code), "verify.py", "hold", (relay.url,), Path(runner), timeout=600)
        task = asyncio.create_task(provider.run_code(image, request))
        while "held" not in await box.logs():
            await asyncio.sleep(0.1)
        print("held", flush=True)
        await task

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("guard", ["no guard", pytest.param("guard", marks=REAL)])
def test_a_server_that_is_killed_leaves_no_code_running(
    guard: str, away: dict[str, str], env_folder: Callable[..., BuildContext], request_of: Callable[..., CodeRequest]
) -> None:
    """Its guard ends the containers; without one they wait for the next server, and the code in them has ended."""
    image, code = env_folder(), request_of("hold").folder
    words = [sys.executable, "-c", HOLDER, str(image.path), str(code), str(RUNNER), guard]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "held"
        assert len(inside(away, "code")) > 2
        process.send_signal(signal.SIGKILL)
    ours = ("ps", "-aq", "--filter", "label=agentenv=docker")
    if guard == "no guard":
        asyncio.run(at_rest(away))
        assert docker(away, *ours) != ""

        async def next_one() -> None:
            async with DockerProvider():
                pass

        asyncio.run(next_one())
    deadline = time.monotonic() + 60
    while docker(away, *ours) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert docker(away, *ours) == ""


# -- the whole --------------------------------------------------------------------------------------------------------


def rewards(variables: dict[str, str], *sandbox: str) -> dict[str, list[float]]:
    play = ("--policy", "greedy", "--groups", "2", "--samples", "2", "--json")
    with tempfile.TemporaryDirectory(prefix="ae-") as state:
        environment = {**os.environ, **variables, "AGENTENV_STATE_DIR": f"{state}/s"}
        done = subprocess.run(
            [AGENTENV, "rehearse", GRIDSIM, *play, *sandbox],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["summary"]["failures"] == 0, result["groups"]
    return {group["task_id"]: [sample["reward"] for sample in group["samples"]] for group in result["groups"]}


@REAL
def test_gridsim_earns_the_same(away: dict[str, str]) -> None:
    """Greedily played and scored by its verifier, which asks the env: as in processes of this machine."""
    assert rewards(away, "--sandbox", "docker") == rewards({})


@REAL
class TestElsewhere(SandboxSuite):
    @pytest.fixture
    def sandbox(self, elsewhere: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SandboxCase:
        for name, value in elsewhere.items():
            monkeypatch.setenv(name, value)
        return SandboxCase("docker")
