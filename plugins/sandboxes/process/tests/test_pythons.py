"""Python environments of envs. No test fetches anything: the requirements are our own core and local packages."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import BuildFailed, SandboxUnavailable
from agent_env.plugin.sandbox import SandboxSpec
from agent_env.plugin.sandboxing.corewheel import core_wheel
from agent_env.sandboxes.process.provider import ProcessProvider
from agent_env.sandboxes.process.requirements import digest, installed
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Isolation

    EnvFolder = Callable[..., BuildContext]
    Processes = Any


def add_package(folder: Path, version: str = "1.0") -> None:
    """A wheel beside the env, so that an installer has something to install without an index."""
    info = f"dice_faces-{version}.dist-info"
    with zipfile.ZipFile(folder / f"dice_faces-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("dice_faces.py", f"FACES = 6\nVERSION = {version!r}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: dice-faces\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def no_uv(program: str) -> str | None:
    assert program == "uv"
    return None


def with_requirements(image: BuildContext) -> BuildContext:
    add_package(image.path)
    (image.path / "requirements.txt").write_text("# ours\nagentenv-core>=0.1\n./dice_faces-1.0-py3-none-any.whl\n")
    return image


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_builds_once_and_runs_in_it(
    env_folder: EnvFolder,
    state_dir: Path,
    tmp_path: Path,
    isolation: Isolation,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    if tool == "pip":
        monkeypatch.setattr("agent_env.sandboxes.process.pythons.shutil.which", no_uv)
        if isolation == "namespace":
            pytest.skip("isolation and the tool that builds have nothing to do with each other")
    elif shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    image = with_requirements(
        env_folder("import dice_faces, agent_env.env, sys; print(dice_faces.__file__, sys.prefix, flush=True)")
    )
    cache = tmp_path / "cache"

    async def play() -> list[str]:
        lines: list[str] = []
        async with ProcessProvider(state_dir=state_dir, cache_dir=cache, isolation=isolation) as provider:
            await asyncio.gather(*(provider.prepare(image, progress=lines.append) for _ in range(3)))
            sandbox = await provider.create(SandboxSpec(image=image))
            file, prefix = (await sandbox.logs()).split()
            assert Path(file).is_relative_to(cache)
            assert Path(prefix).is_relative_to(cache)
        return lines

    first = asyncio.run(play())
    assert len([line for line in first if "building" in line]) == 3  # each of the three was told, of one build
    assert len(list((cache / "pythons").glob("*/bin/python"))) == 1
    assert asyncio.run(play()) == []


PREPARE = """
import asyncio, sys
from pathlib import Path
from agent_env.plugin.sandbox import BuildContext
from agent_env.sandboxes.process.provider import ProcessProvider

async def main():
    async with ProcessProvider(state_dir=sys.argv[1], cache_dir=sys.argv[2], isolation="none") as provider:
        await provider.prepare(BuildContext(Path(sys.argv[3])), progress=lambda line: print(line, flush=True))

asyncio.run(main())
"""


def test_two_processes_build_once(
    env_folder: EnvFolder,
    state_dir: Path,
    tmp_path: Path,
    run_python: Callable[..., subprocess.Popen[str]],
    processes: Processes,
) -> None:
    image = with_requirements(env_folder())
    started = [run_python(PREPARE, str(state_dir), str(tmp_path / "cache"), str(image.path)) for _ in range(2)]
    outputs = [process.communicate(timeout=100) for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert sum("building its Python environment" in out for out, _ in outputs) == 1
    assert len(list((tmp_path / "cache" / "pythons").glob("*/bin/python"))) == 1


def test_a_failed_build_says_why_and_leaves_nothing(
    env_folder: EnvFolder, state_dir: Path, tmp_path: Path, processes: Processes
) -> None:
    image = env_folder()
    (image.path / "requirements.txt").write_text("./no-such-package-1.0-py3-none-any.whl\n")

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, cache_dir=tmp_path / "cache") as provider:
            for _ in range(2):
                with pytest.raises(BuildFailed, match="no-such-package") as caught:
                    await provider.prepare(image)
                assert "no-such-package" in caught.value.log
                assert not caught.value.retryable
            with pytest.raises(BuildFailed):
                await provider.create(SandboxSpec(image=image))

    asyncio.run(play())
    assert [path.suffix for path in (tmp_path / "cache" / "pythons").iterdir()] == [".lock"]


def test_a_cancelled_build_leaves_nothing(
    env_folder: EnvFolder, state_dir: Path, tmp_path: Path, processes: Processes
) -> None:
    image = with_requirements(env_folder())
    cache = tmp_path / "cache"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, cache_dir=cache) as provider:
            started = asyncio.Event()
            task = asyncio.create_task(provider.prepare(image, progress=lambda _: started.set()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(play())
    left = [path for path in (cache / "pythons").iterdir() if path.suffix != ".lock"]
    assert left == [] or (left[0] / ".agentenv-complete").exists()


def test_closing_during_a_build_is_no_cancellation_of_who_waits(
    env_folder: EnvFolder, state_dir: Path, tmp_path: Path, processes: Processes
) -> None:
    image = with_requirements(env_folder())

    async def play() -> None:
        provider = ProcessProvider(state_dir=state_dir, cache_dir=tmp_path / "cache")
        started = asyncio.Event()
        prepare = asyncio.create_task(provider.prepare(image, progress=lambda _: started.set()))
        await started.wait()
        create = asyncio.create_task(provider.create(SandboxSpec(image=image)))
        await asyncio.sleep(0.01)
        await provider.close()
        for task in (prepare, create):
            with pytest.raises(SandboxUnavailable, match="clos"):
                await task

    asyncio.run(play())


def test_keys_of_the_server_do_not_reach_build_scripts(
    env_folder: EnvFolder, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent_env.sandboxes.process import pythons

    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("PIP_RETRIES", "1")
    seen = pythons._environment()
    assert "SOME_API_KEY" not in seen
    assert seen["PIP_RETRIES"] == "1"


def test_core_wheel_holds_the_running_core() -> None:
    name, data = core_wheel()
    assert name.startswith("agentenv_core-")
    with zipfile.ZipFile(BytesIO(data)) as wheel:
        names = set(wheel.namelist())
        assert {"agent_env/errors.py", "agent_env/env/__init__.py"} <= names
        foreign = ("agent_env/sandboxes/", "agent_env/training/")
        assert not any(item.startswith(foreign) or "__pycache__" in item for item in names)
        source = Path(sys.modules["agent_env.errors"].__file__ or "").read_bytes()
        assert wheel.read("agent_env/errors.py") == source


def test_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("agentenv-core\nnumpy==1\n")
    text = "-r more.txt  # more\nAgentEnv_Core[server] >= 0.1\n./local\nagentenv-core-tools\n-c limits.txt\n"
    text += "httpx \\\n  >=1\n"
    lines, core = installed(tmp_path, text)
    assert lines == [
        "numpy==1",
        f"{tmp_path}/local",
        "agentenv-core-tools",
        f"-c {tmp_path}/limits.txt",
        "httpx    >=1",
    ]
    assert core
    assert installed(tmp_path, "agentenv-framework>=0.9\n") == (["agentenv-framework>=0.9"], False)
    assert installed(tmp_path, "agentenv-framework-protocol\n")[1]
    with pytest.raises(BuildFailed, match="editable"):
        digest(tmp_path, "-e .\n")
    with pytest.raises(BuildFailed, match="no-such-file"):
        digest(tmp_path, "-r no-such-file.txt\n")


@given(st.lists(st.sampled_from(["numpy==1", "httpx", "agentenv-core", ""]), max_size=5))
def test_the_digest_depends_on_what_is_said_only(lines: list[str]) -> None:
    text = "\n".join(lines)
    noisy = "\n".join(f"  {line}   # why" for line in lines)
    folder = Path(os.devnull).parent
    assert digest(folder, text) == digest(folder, noisy)
    assert digest(folder, text) != digest(folder, text + "\nanother")


def test_the_digest_sees_included_and_local_files(tmp_path: Path) -> None:
    add_package(tmp_path)
    (tmp_path / "more.txt").write_text("numpy==1\n")
    package = tmp_path / "dice_faces-1.0-py3-none-any.whl"
    for text, file in (("-r more.txt\n", tmp_path / "more.txt"), (f"./{package.name}\n", package)):
        before = digest(tmp_path, text)
        assert digest(tmp_path, text) == before
        file.write_text("numpy==2\n")
        assert digest(tmp_path, text) != before
