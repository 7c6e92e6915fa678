"""Images that are built or pulled, and what an engine says of them."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import BuildFailed, SandboxUnsupported
from agent_env.plugin.building import context
from agent_env.plugin.sandbox import BuildContext, ImageRef, SandboxSpec, TemplateRef
from agent_env.sandboxes.docker.images import tag_of
from agent_env.sandboxes.docker.provider import DockerProvider

if TYPE_CHECKING:
    from collections.abc import Callable

FROM = "FROM python:3.11-slim\n"


def env(folder: Path, text: str = f'{FROM}CMD ["python", "server.py"]\n', **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(text)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(content)
    return folder


def test_the_name_of_what_is_built(tmp_path: Path) -> None:
    found = context.read(env(tmp_path / "My_Env"), "Dockerfile", provider="docker")
    assert tag_of(found) == f"agentenv/my-env:{found.digest[:24]}"


@pytest.mark.docker
def test_wrong_settings_are_named(env_folder: Callable[..., BuildContext]) -> None:
    image = env_folder(toml="[docker]\nreadonly = true\n")

    async def play() -> None:
        async with DockerProvider(guard=False) as provider:
            with pytest.raises(SandboxUnsupported, match=r"readonly.*known: port, read_only, tmpfs"):
                await provider.prepare(image)
            with pytest.raises(SandboxUnsupported):
                await provider.prepare(TemplateRef("some-template"))
            with pytest.raises(BuildFailed, match=r"no-such-image"):
                await provider.prepare(ImageRef("127.0.0.1:1/no-such-image:1"))

    asyncio.run(play())


@pytest.mark.docker
def test_an_image_by_name(docker: Callable[..., str]) -> None:
    async def play() -> None:
        async with DockerProvider(guard=False) as provider:
            spec = SandboxSpec(image=ImageRef("python:3.11-slim"), serves=False)
            async with await provider.create(spec) as box:
                assert (await box.exec(["python", "-c", "print(6 * 7)"])).stdout == "42\n"

    asyncio.run(play())


@pytest.mark.docker
def test_an_image_that_nothing_keeps_alive(tmp_path: Path, docker: Callable[..., str]) -> None:
    """An image with neither a shell nor Python: said in words."""
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    (tmp_path / "empty.tar").write_bytes(empty.getvalue())
    docker("import", str(tmp_path / "empty.tar"), "agentenv-test/empty:1")

    async def play() -> None:
        async with DockerProvider(guard=False) as provider:
            with pytest.raises(SandboxUnsupported, match=r"neither `sleep` nor Python"):
                await provider.create(SandboxSpec(image=ImageRef("agentenv-test/empty:1"), serves=False))
            with pytest.raises(SandboxUnsupported, match=r"neither CMD nor ENTRYPOINT"):
                await provider.create(SandboxSpec(image=ImageRef("agentenv-test/empty:1")))

    try:
        asyncio.run(play())
    finally:
        docker("rmi", "-f", "agentenv-test/empty:1")


@pytest.mark.docker
def test_an_env_made_with_our_kit_finds_it(tmp_path: Path) -> None:
    """Nothing installs the core in the image: the server that builds it puts its own in."""
    folder = env(
        tmp_path / "kit",
        f'{FROM}WORKDIR /app\nCOPY . .\nCMD ["python", "server.py"]\n',
        server_py="from agent_env.env import Env\nclass Kit(Env, name='kit'):\n    pass\nKit.serve()\n",
    )

    async def play() -> None:
        async with (
            DockerProvider(guard=False) as provider,
            await provider.create(SandboxSpec(image=BuildContext(folder))) as box,
        ):
            done = await box.exec(["python", "-c", "import agent_env.errors as e; print(e.__file__)"])
            assert done.stdout == "/opt/agentenv/core/agent_env/errors.py\n"

    asyncio.run(play())
