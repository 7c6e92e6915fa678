"""An engine behind ssh://: one process of ssh, of which nothing is left. What listens here for it stands in for ssh."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from agent_env.errors import SandboxUnavailable
from agent_env.plugin.sandbox import ImageRef, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider
from agent_env.sandboxes.docker.ssh import Forward, ssh_command

STAND_IN = f"""#!{sys.executable} -IS
import asyncio, os, socket, sys

HERE = os.path.dirname(os.path.abspath(__file__))
if os.path.exists(HERE + "/refuse"):
    sys.exit("user@box: Permission denied (publickey).")
with open(HERE + "/started", "a") as file:
    file.write("%d\\n" % os.getpid())
local, _, remote = sys.argv[sys.argv.index("-L") + 1].partition(":")

async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()

async def accepted(reader, writer):
    far_reader, far_writer = await asyncio.open_unix_connection(remote)
    try:
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
    except OSError:
        pass
    finally:
        writer.close()
        far_writer.close()

async def main():
    os.umask(0o177)
    server = await asyncio.start_unix_server(accepted, local)
    await asyncio.to_thread(sys.stdin.buffer.read)
    os._exit(0)

asyncio.run(main())
"""
URL = "ssh://user@box"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH with a program `ssh`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(STAND_IN)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return folder


def started(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "started").read_text().split()]


def running(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.docker
def test_an_engine_behind_ssh(stand_in: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with DockerProvider(host=URL, guard=False) as provider:
            spec = SandboxSpec(image=ImageRef("python:3.11-slim"), serves=False)
            async with await provider.create(spec) as box:
                done = await box.exec(["cat"], stdin=b"x" * 300_000)
                assert len(done.stdout) == 300_000
                (first,) = started(stand_in)
                os.kill(first, signal.SIGKILL)
                assert not await asyncio.to_thread(running, first)
                many = await asyncio.gather(*(box.exec(["echo", str(nth)]) for nth in range(20)))
                assert [int(one.stdout) for one in many] == list(range(20))
        assert len(started(stand_in)) == 2
        assert not running(started(stand_in)[1])

    asyncio.run(play())
    assert list(tmp_path.glob("ae-ssh-*")) == []


def test_ssh_says_no(stand_in: Path, tmp_path: Path) -> None:
    async def play() -> None:
        (stand_in / "refuse").touch()
        forward = Forward(URL)
        with pytest.raises(SandboxUnavailable, match=r"ssh://user@box: .*Permission denied \(publickey\)"):
            await forward.ready()
        await forward.close()

    asyncio.run(play())
    assert list(tmp_path.glob("ae-ssh-*")) == []


def test_ssh_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    async def play() -> None:
        provider = DockerProvider(host=URL, guard=False, state_dir=tmp_path / "s")
        with pytest.raises(SandboxUnavailable, match="the command ssh cannot be run"):
            await provider.start()
        await provider.close()

    asyncio.run(play())


def test_ssh_ends_with_a_server_that_is_killed(stand_in: Path) -> None:
    program = (
        "import asyncio\nfrom agent_env.sandboxes.docker.ssh import Forward\nasync def main():\n"
        f"    await Forward({URL!r}).ready()\n    print('ready', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        process.kill()
    (pid,) = started(stand_in)
    assert not running(pid)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://box", ["-L", "/l:/var/run/docker.sock", "--", "box", "cat"]),
        ("ssh://me@box:2222", ["-p", "2222", "-l", "me", "-L", "/l:/var/run/docker.sock", "--", "box", "cat"]),
        (
            "ssh://a%40b@box/run/user/1/docker.sock",
            ["-l", "a@b", "-L", "/l:/run/user/1/docker.sock", "--", "box", "cat"],
        ),
    ],
)
def test_the_command(url: str, words: list[str]) -> None:
    assert ssh_command(url, "/l")[-len(words) :] == words


@pytest.mark.parametrize("url", ["ssh://", "ssh://-oProxyCommand=x", "ssh://-lx@box", "ssh://me:hush@box"])
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        ssh_command(url, "/l")
    assert "hush" not in str(caught.value)
