"""The verifier against servers that answer well, badly and not at all."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

IDLE = {"loaded": True, "submitted": True, "feasible": True, "profit": 0.0, "best_profit": 9.0, "score": 0.2}


@contextmanager
def env_that_answers(body: str, status: int = 200) -> Generator[tuple[str, list[tuple[str, Any]]]]:
    seen: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, json.loads(raw)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp", seen
        finally:
            server.shutdown()
            thread.join()


def parts(data: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"parts": [{"kind": "data", "data": data}]}})


def test_the_row_holds_the_env_s_score(verifier: Any) -> None:
    with env_that_answers(parts(IDLE)) as (url, seen):
        rows = asyncio.run(verifier.verify(url))
    assert rows == [{"id": "schedule", "result": False, "score": 0.2, "description": "earns $0.00 of at most $9.00"}]
    assert seen == [("/agentenv", {"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": {}})]


@pytest.mark.parametrize(
    ("data", "score", "result", "why"),
    [
        (IDLE | {"score": 1.0, "profit": 9.0}, 1.0, True, "earns $9.00"),
        ({"loaded": True, "submitted": False, "score": 0.0}, 0.0, False, "no schedule was submitted"),
        (IDLE | {"feasible": False, "reason": "hour 3 sells", "score": 0.0}, 0.0, False, "infeasible: hour 3 sells"),
    ],
)
def test_rows(verifier: Any, data: Any, score: float, result: bool, why: str) -> None:
    with env_that_answers(parts(data)) as (url, _):
        (row,) = asyncio.run(verifier.verify(url))
    assert (row["score"], row["result"]) == (score, result)
    assert why in row["description"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (parts(IDLE), 500),
        (parts(IDLE), 302),
        ("", 200),
        ("not json", 200),
        ("[]", 200),
        ("{}", 200),
        (json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "boom"}}), 200),
        (json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"parts": []}}), 200),
        (parts({}), 200),
        (parts(None), 200),
        (parts({"loaded": False, "submitted": False}), 200),
        (parts(IDLE | {"score": 1.5}), 200),
        (parts(IDLE | {"score": -0.1}), 200),
        (parts(IDLE | {"score": "0.2"}), 200),
        (parts(IDLE | {"score": None}), 200),
        (parts(IDLE | {"score": True}), 200),
        (parts(IDLE | {"score": float("nan")}), 200),
        (parts(IDLE | {"feasible": False, "reason": "x"}), 200),
        (parts(IDLE | {"submitted": False}), 200),
        (parts(IDLE | {"submitted": None, "score": 0.0}), 200),
    ],
)
def test_anything_unexpected_raises_instead_of_scoring(verifier: Any, body: str, status: int) -> None:
    with env_that_answers(body, status) as (url, _), pytest.raises(Exception, match=r".+"):
        asyncio.run(verifier.verify(url))


def test_an_env_that_is_gone_raises(verifier: Any) -> None:
    with env_that_answers("") as (url, _):
        pass
    with pytest.raises(OSError, match="refused"):
        asyncio.run(verifier.verify(url))
