"""Files that a task names by URL."""

from __future__ import annotations

import asyncio
import http.server
import threading
from typing import TYPE_CHECKING

import pytest
from agent_env.bundle.steps.load import Url
from agent_env.episode.downloads import download
from agent_env.episode.steps.load import file_names
from agent_env.errors import AgentEnvError, SandboxUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(http.server.BaseHTTPRequestHandler):
    """One file, one redirect to it, and errors."""

    def do_GET(self) -> None:
        code = {"/file": 200, "/moved": 302, "/busy": 503}.get(self.path, 404)
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/file")
        self.end_headers()
        if code == 200:
            self.wfile.write(b"content")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """Base URL of a web server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}"
        web.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/file", "/moved"])
def test_the_content_is_there_while_it_is_needed(server: str, path: str) -> None:
    async def play() -> None:
        async with download(server + path) as local:
            assert local.read_bytes() == b"content"
        assert not local.parent.exists()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("path", "error", "words"), [("/none", UsageError, "HTTP 404"), ("/busy", SandboxUnavailable, "HTTP 503")]
)
def test_what_a_server_refuses(server: str, path: str, error: type[AgentEnvError], words: str) -> None:
    async def play() -> None:
        with pytest.raises(error, match=words):
            async with download(server + path):
                pass

    asyncio.run(play())


def test_a_server_that_is_not_there() -> None:
    async def play() -> None:
        with pytest.raises(SandboxUnavailable, match="ConnectError"):
            async with download("http://127.0.0.1:1/file"):
                pass

    asyncio.run(play())


def test_names_of_files() -> None:
    urls = [
        Url(url="https://a.example/x/data.csv?v=1"),
        Url(url="https://b.example/data.csv"),
        Url(url="https://b.example/y/data.csv#top"),
        Url(url="https://b.example/", filename="named.txt"),
        Url(url="https://b.example/a%20b"),
    ]
    assert file_names(urls) == ["data.csv", "data-1.csv", "data-2.csv", "named.txt", "a b"]
