"""What bubblewrap hides."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SandboxUnsupported
from agent_env.plugin.sandbox import HostImage, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext

    EnvFolder = Callable[..., BuildContext]
    Processes = Any

LOOK = """
import json, os, socket, sys
found = {}
for path in sys.argv[2:]:
    try:
        found[path] = open(path).read() if os.path.isfile(path) else sorted(os.listdir(path))
    except OSError as error:
        found[path] = None
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2).close()
    found["network"] = True
except OSError:
    found["network"] = False
found["pids"] = [entry for entry in os.listdir("/proc") if entry.isdigit()]
print(json.dumps(found))
"""


@pytest.mark.usefixtures("need_bubblewrap")
def test_hides_home_secrets_other_sandboxes_and_the_network(
    env_folder: EnvFolder, state_dir: Path, tmp_path: Path, processes: Processes
) -> None:
    secret = tmp_path / "credentials"
    secret.write_text("top secret")
    hidden = [str(secret), "/etc/shadow", "/var", "/run/docker.sock", str(Path.home() / ".bashrc"), str(state_dir)]

    async def play(port: int) -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="namespace") as provider:
            assert provider.capabilities.isolation == "namespace"
            for network in (None, "open"):
                box = await provider.create(SandboxSpec(image=HostImage(), serves=False, network=network))
                await box.write("look.py", LOOK.encode())
                done = await box.exec(["python", "look.py", str(port), *hidden])
                found = json.loads(done.stdout)
                assert {path: found[path] for path in hidden} == dict.fromkeys(hidden)
                assert found["network"] == (network == "open")
                assert len(found["pids"]) <= 4
            done = await box.exec(["sh", "-c", "echo x > /usr/bin/agentenv-test"])
            assert done.exit_code != 0

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(play(listener.getsockname()[1]))
    assert not Path("/usr/bin/agentenv-test").exists()


@pytest.mark.usefixtures("need_bubblewrap")
def test_a_readable_path_can_be_added(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("corpus")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, readable=(tmp_path,)) as provider:
            box = await provider.create(SandboxSpec(image=HostImage(), serves=False))
            assert (await box.exec(["cat", str(tmp_path / "corpus.txt")])).stdout == "corpus"
            assert (await box.exec(["touch", str(tmp_path / "new")])).exit_code != 0

    asyncio.run(play())


def test_required_and_missing_bubblewrap_is_an_error(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    async def start(isolation: str) -> ProcessProvider:
        provider = ProcessProvider(state_dir=state_dir, isolation=isolation)
        try:
            await provider.start()
            if isolation == "auto":
                spec = SandboxSpec(image=HostImage(), serves=False, isolation="shared")
                with pytest.raises(SandboxUnsupported, match="is not installed"):
                    await provider.create(spec)
        finally:
            await provider.close()
        return provider

    with pytest.raises(SandboxUnsupported, match=r"bubblewrap \(bwrap\) is not installed"):
        asyncio.run(start("namespace"))
    assert asyncio.run(start("auto")).capabilities.isolation == "none"
