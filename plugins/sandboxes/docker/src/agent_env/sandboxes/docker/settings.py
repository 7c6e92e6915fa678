"""``[docker]`` of an env's ``agentenv.toml``."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from agent_env.errors import SandboxUnsupported
from pydantic import BaseModel, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from pathlib import Path


class DockerSettings(BaseModel):
    """What an env says of its containers.

    Attributes:
        port: TCP port that its server insists on; without it the server is told one by ``MCP_PORT``, or has the one
            that its Dockerfile exposes.
        read_only: its root file system may be read-only.
        tmpfs: folders that stay writable then, besides /tmp.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int | None = Field(default=None, gt=0, lt=65536)
    read_only: bool = False
    tmpfs: tuple[str, ...] = ()


def read_settings(folder: Path) -> DockerSettings:
    """Settings of the env in ``folder``; other providers' tables are theirs.

    Raises:
        SandboxUnsupported: they are wrong; the message says what to write.
    """
    try:
        document = tomllib.loads((folder / "agentenv.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return DockerSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SandboxUnsupported(f"env {folder.name!r}: agentenv.toml: {error}", provider="docker") from error
    try:
        return DockerSettings.model_validate(document.get("docker", {}))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        known = ", ".join(DockerSettings.model_fields)
        raise SandboxUnsupported(
            f"env {folder.name!r}: agentenv.toml: [docker] {problems} (known: {known})", provider="docker"
        ) from error
