"""The example bundles hello and echo-mcp."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle.check import check_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["hello", "echo-mcp"])
def test_an_example_is_portable_and_has_no_problems(name: str) -> None:
    result = check_bundle(EXAMPLES / name, portable=True)

    assert (result.problems, result.notes) == ((), ())
    # The path of a checkout is nobody's fault.
    assert [problem for problem in result.portable if "folder's path" not in problem.message] == []


def test_the_check_of_hello(tmp_path: Path) -> None:
    greeting = EXAMPLES / "hello/artifacts/greeting"
    (tmp_path / "hello.txt").write_text("goodbye")

    for folder, code in ((greeting, 0), (tmp_path, 1)):
        done = subprocess.run(["bash", str(greeting / "check.sh")], cwd=folder, check=False)
        assert done.returncode == code


@pytest.fixture
def echo() -> Iterator[str]:
    """The env of echo-mcp as a real process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = EXAMPLES / "echo-mcp/envs/echo/server.py"
    process = subprocess.Popen(
        [sys.executable, str(server)],
        env={**os.environ, "MCP_HOST": "127.0.0.1", "MCP_PORT": str(port)},
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("verify_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.interop
def test_the_verifier_of_echo_mcp_calls_the_tool(echo: str) -> None:
    pytest.importorskip("mcp")
    verify = load(EXAMPLES / "echo-mcp/artifacts/check_echo/verify.py")

    rows = verify.verify(echo)

    assert len(rows) == 3
    assert all(row["result"] is True for row in rows)


def test_the_verifier_of_echo_mcp_raises_when_there_is_no_server() -> None:
    verify = load(EXAMPLES / "echo-mcp/artifacts/check_echo/verify.py")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))

        with pytest.raises(OSError, match="refused"):
            verify.verify(f"http://127.0.0.1:{unused.getsockname()[1]}/mcp")
