"""A wheel of the agentenv-core that runs this server, so that envs get the same one and no index is asked for it."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import zipfile
from importlib import metadata
from pathlib import Path

import agent_env.errors

_NAME = "agentenv-core"


@functools.cache
def core_wheel() -> tuple[str, bytes]:
    """File name and content, the same bytes for the same core.

    It carries no requirements: the part for env authors needs the standard library only.
    """
    version = metadata.version(_NAME)
    files = _sources()
    info = f"agentenv_core-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: agentenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return f"agentenv_core-{version}-py3-none-any.whl", buffer.getvalue()


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _sources() -> dict[str, bytes]:
    """The package's files by their path in the wheel, from a plain or an editable installation."""
    listed = metadata.distribution(_NAME).files or []
    wanted = {str(file): Path(str(file.locate())) for file in listed if _wanted(str(file))}
    if "agent_env/errors.py" not in wanted:
        folder = Path(agent_env.errors.__file__).parent
        found = (path for path in folder.rglob("*") if path.is_file())
        wanted = {f"agent_env/{path.relative_to(folder).as_posix()}": path for path in found}
        wanted = {name: path for name, path in wanted.items() if _wanted(name)}
    return {name: path.read_bytes() for name, path in sorted(wanted.items())}


def _wanted(name: str) -> bool:
    return name.startswith("agent_env/") and name.endswith((".py", "py.typed")) and "__pycache__" not in name
