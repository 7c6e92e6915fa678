"""What an env answers to each request of the protocol, right and wrong."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env import Env, add_data, get_data, tool
from agent_env.env.app import EnvApp
from agent_env.env.http.requests import Request
from agent_env.env.http.responses import Response
from agent_env.env.running import run_here

if TYPE_CHECKING:
    from collections.abc import Callable


def counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call


class Box(Env, name="box", tool_access=True):
    @tool
    def open(self) -> str:
        return "open"

    @tool
    @counted
    async def wrapped(self, n: int) -> int:
        return n

    @tool(hidden_by_default=True)
    def hidden(self) -> None: ...

    @add_data
    def add(self, parts: list[dict[str, Any]]) -> None: ...

    @get_data
    def get(self, write_namespace: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return [{"kind": "data", "data": {"grant": write_namespace, "n": 1}, "metadata": None}]


class Client:
    """Asks one env."""

    def __init__(self) -> None:
        self._app = EnvApp(Box(), run_here)

    def ask(self, method: str, target: str, body: object = b"", **headers: str) -> tuple[int, Any, dict[str, str]]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, target, {name.replace("_", "-"): value for name, value in headers.items()}, raw)
        answer = self._app.handle(request)
        if not isinstance(answer, Response):
            answer = asyncio.run(answer)
        assert isinstance(answer.body, bytes)
        is_json = answer.content_type == "application/json"
        content = json.loads(answer.body) if is_json else answer.body.decode()
        return answer.status, content, dict(answer.headers)

    def rpc(self, method: str, params: Any = None, **headers: str) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not None:
            message["params"] = params
        status, content, _ = self.ask("POST", "/mcp", message, **headers)
        assert status == 200
        return content


@pytest.fixture
def client() -> Client:
    return Client()


def test_versions_and_sessions(client: Client) -> None:
    for asked, given in (("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")):
        message = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"protocolVersion": asked}}
        status, content, headers = client.ask("POST", "/mcp", message)
        assert (status, content["id"], content["result"]["protocolVersion"]) == (200, "a", given)
        session = headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.ask("POST", "/mcp", note, mcp_session_id=session)[0] == 202
        assert client.rpc("ping", mcp_session_id=session)["result"] == {}
        assert client.ask("DELETE", "/mcp", mcp_session_id=session)[0] == 204
        for method in ("POST", "DELETE"):
            gone = client.ask(method, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, mcp_session_id=session)
            assert gone[0] == 404
    assert client.ask("POST", "/mcp", note, mcp_protocol_version="1.0")[0] == 400


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b'{"a": NaN}', 400, -32700),
        (b"[" * 100_000, 400, -32700),
        (b"[]", 400, -32600),
        (b"3", 400, -32600),
        (b"{}", 400, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, 200, -32602),
    ],
)
def test_messages_that_are_none(client: Client, body: object, status: int, code: int) -> None:
    got, content, _ = client.ask("POST", "/mcp", body)
    assert (got, content["error"]["code"]) == (status, code)


def test_batches_and_replies(client: Client) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "open"}}
    status, content, _ = client.ask("POST", "/mcp", [ping, note, call, 3])
    assert status == 200
    assert [one.get("id") for one in content] == [1, 2, None]
    assert client.ask("POST", "/mcp", [note])[0] == 202
    assert client.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "result": {}})[0] == 202


def test_routes(client: Client) -> None:
    assert client.ask("GET", "/mcp")[::2] == (405, {"allow": "DELETE, POST"})
    assert client.ask("POST", "/.well-known/agent-env.json")[::2] == (405, {"allow": "GET, HEAD"})
    assert client.ask("HEAD", "/.well-known/agent-env.json")[0] == 200
    assert client.ask("GET", "http://box/.well-known/agent-env.json?x=1")[1]["name"] == "box"
    status, content, _ = client.ask("GET", "/nothing")
    assert (status, content["ok"], content["error"]["code"]) == (404, False, "not_found")


def test_roles_see_what_they_may(client: Client) -> None:
    def seen(**headers: str) -> set[str]:
        return {one["name"] for one in client.rpc("tools/list", **headers)["result"]["tools"]}

    def access(action: str, role: str, tools: object) -> Any:
        return client.ask("POST", f"/tools/{action}", {"role": role, "tools": tools})[1]

    assert seen() == {"open", "wrapped"}
    assert access("enable", "boss", ["hidden"]) == {"role": "boss", "disabled": [], "allowed": ["hidden"]}
    assert seen(agentenv_role="boss") == {"open", "wrapped", "hidden"}
    assert seen(agentenv_role=" default ") == seen() == {"open", "wrapped"}
    access("disable", "default", ["open"])
    assert seen() == {"wrapped"}
    called = client.rpc("tools/call", {"name": "open"})["result"]
    assert called["isError"] is True
    assert "permission_denied" in called["content"][0]["text"]
    # A role that a gateway stamped stands; the headers are then the gateway's own.
    stamped = {"name": "open", "_meta": {"agentenv.io/role": "boss"}}
    assert client.rpc("tools/call", stamped)["result"]["isError"] is False
    stamped["_meta"] = {"agentenv.io/role": ""}
    assert client.rpc("tools/call", stamped, agentenv_role="boss")["result"]["isError"] is True
    refused = client.ask("POST", "/tools/disable", {"role": "x"})
    assert (refused[0], refused[1]["error"]["code"]) == (400, "invalid_params")
    assert client.ask("POST", "/tools/enable", b"{")[1]["error"]["code"] == "invalid_params"
    listed = client.rpc("tools/list", agentenv_role="boss")["result"]["tools"]
    assert next(one for one in listed if one["name"] == "hidden")["_meta"] == {"agentenv.io/hiddenByDefault": True}


def test_an_async_method_behind_a_decorator(client: Client) -> None:
    result = client.rpc("tools/call", {"name": "wrapped", "arguments": {"n": 3}})["result"]
    assert result["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", {"code": -32700, "message": "parse error"}),
        (b"[]", {"code": -32600, "message": "invalid request"}),
        ({"jsonrpc": "2.0", "id": 7}, {"code": -32600, "message": "invalid request"}),
        (
            {"jsonrpc": "2.0", "id": 7, "method": "data/reset"},
            {"code": -32601, "message": "method not found: data/reset"},
        ),
        ({"jsonrpc": "2.0", "id": 7, "method": "data/add", "params": {"parts": []}}, "parts: expected a list"),
        ({"jsonrpc": "2.0", "id": 7, "method": "data/add", "params": {"parts": [{"kind": "file"}]}}, "parts[0].file"),
        ({"jsonrpc": "2.0", "id": 7, "method": "data/add", "params": [1]}, "params: expected an object"),
        ({"jsonrpc": "2.0", "id": 7, "method": "data/get", "params": {"write_namespace": {"x": 1}}}, "unknown x"),
    ],
)
def test_errors_of_data_operations(client: Client, body: object, error: Any) -> None:
    status, content, _ = client.ask("POST", "/agentenv", body)
    assert (status, content["jsonrpc"], content["id"]) == (200, "2.0", 7 if isinstance(body, dict) else None)
    if isinstance(error, str):
        assert (content["error"]["code"], content["error"]["message"]) == (-32602, "invalid_request")
        assert error in content["error"]["data"]["detail"]
    else:
        assert content["error"] == error


def test_data_get_with_a_grant(client: Client) -> None:
    card = client.ask("GET", "/.well-known/agent-env.json")[1]
    assert "urn:agentenv:data-objects/v1" in {one["uri"] for one in card["capabilities"]["extensions"]}
    assert card["capabilities"]["operations"] == ["data/add", "data/get"]
    grant = {"root_path": "/x", "max_objects": 1}
    for params, given in (({}, {"n": 1}), ({"write_namespace": grant}, {"grant": grant, "n": 1})):
        message = {"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": params}
        content = client.ask("POST", "/agentenv", message)[1]
        assert content["result"] == {"parts": [{"kind": "data", "data": given}]}  # nulls are dropped
