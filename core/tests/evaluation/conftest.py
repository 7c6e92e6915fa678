"""An OpenAI-compatible endpoint whose model is a Python function, with keys, headers and faults on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.evaluation.plan import EvalPlan
from agent_env.evaluation.run import EvalRun, evaluate
from agent_env.evaluation.settings import EvalSettings
from agent_env.testing.small import small_bundle
from agent_env.testing.standin.chat import make_message
from agent_env.testing.standin.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

Reply = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Any]
Scripted = tuple[int, dict[str, str], Any]
"""Status, headers and body of an answer that replaces the model's."""


@dataclass
class ChatServer:
    """The endpoint; every reply costs 100 prompt tokens and 10 completion tokens."""

    reply: Reply
    key: str | None = None
    faults: Callable[[int, dict[str, Any]], Scripted | None] = lambda _number, _body: None
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10})
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    gate: threading.Barrier | None = None
    """First replies wait until so many have been asked for at once."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Scripted:
        with self.lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.headers.append(headers)
        if path.partition("?")[0] != "/v1/chat/completions":
            return 404, {}, {"error": f"no {path}"}
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return 401, {}, {"error": {"message": f"Incorrect API key provided: {headers.get('authorization')}"}}
        if self.gate is not None and not any(message["role"] == "assistant" for message in body["messages"]):
            self.gate.wait(30)
        scripted = self.faults(number, body)
        if scripted is not None:
            return scripted
        message, finish = make_message(self.reply(body["messages"], body.get("tools") or []), Fault(), body)
        return 200, {}, {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": self.usage}


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, extra, answer = server.answer(self.path, headers, body)
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**extra, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


@pytest.fixture
def chat() -> Iterator[Callable[..., ChatServer]]:
    """``chat(reply, key=…, faults=…)`` starts an endpoint."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(reply: Reply, **options: Any) -> ChatServer:
        server = ChatServer(reply, **options)
        http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        running.append((http, thread))
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        return server

    yield start
    for http, thread in running:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Three tasks, each solved by looking and saying the word."""
    return small_bundle(tmp_path / "rooms", tasks=3)


@pytest.fixture
def settings() -> EvalSettings:
    return EvalSettings("rooms", "train", 3, "0123", "http://model.example/v1", "m")


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Any]:
    """``await play(url, server, k=2)`` evaluates against a bundle's server."""

    async def run(url: str, server: ChatServer, **options: Any) -> EvalRun:
        plan: dict[str, Any] = {
            "split": "train",
            "out": tmp_path / "run",
            "model_timeout": 20.0,
            "reset_timeout": 10.0,
            **options,
        }
        return await evaluate(EvalPlan(url=url, base_url=server.url, model="m", **plan))

    return run
