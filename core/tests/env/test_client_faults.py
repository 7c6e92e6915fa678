"""Our client with servers that break the protocol, hang, move or die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.env.http.responses import Response, json_response
from agent_env.env.http.server import HttpServer
from agent_env.env.sockets import listen_tcp, listen_uds
from agent_env.env.transport import Outgoing, TransportTimeout, open_transport
from agent_env.errors import EnvError, EnvRequestError, EnvTimeout, EnvUnsupported
from agent_env.plugin.sandbox import Endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.env.http.requests import Request

Game = Callable[[EnvClient], Awaitable[None]]
CARD: dict[str, Any] = {"name": "fake", "capabilities": {"extensions": [], "operations": None}}
OK = {"content": [{"type": "text", "text": "fine"}]}


class Fake:
    """A server that answers as it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.card: Any = CARD
        self.answers: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-06-18"},
            "tools/list": {"tools": [{"name": "go"}]},
            "tools/call": OK,
        }
        self.requests: list[Request] = []
        self.methods: list[str] = []
        self.session: str | None = "s1"

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        if request.path.endswith("/.well-known/agent-env.json"):
            return self.card if isinstance(self.card, Response) else json_response(self.card)
        if request.method == "DELETE":
            return Response(204, b"", None)
        message: dict[str, Any] = json.loads(request.body) if request.body else {}
        method = message.get("method", request.path)
        self.methods.append(method)
        answer = self.answers.get(method)
        if callable(answer):
            return answer(message)
        if isinstance(answer, Response):
            return answer
        if "id" not in message and answer is None:
            return Response(202, b"", None)
        headers = {"mcp-session-id": self.session} if method == "initialize" and self.session else {}
        return json_response({"jsonrpc": "2.0", "id": message.get("id"), "result": answer}, headers=headers)


def play(fake: Any, game: Game, *, opened: bool = True, headers: dict[str, str] | None = None, **options: Any) -> None:
    async def main() -> None:
        server = HttpServer(fake)
        sock = listen_tcp("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}{options.pop('prefix', '')}"
        await server.listen(sock)
        client = EnvClient(Endpoint(url, headers=headers or {}), name="box", **options)
        try:
            if opened:
                await client.open()
            await game(client)
        finally:
            await client.close()
            await server.close(grace=0)
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())


async def call(client: EnvClient) -> None:
    await client.call_tool("go", {}, timeout=5)


def test_what_is_sent() -> None:
    fake = Fake()

    async def game(client: EnvClient) -> None:
        assert (await client.call_tool("go", {"a": 1})).text == "fine"
        with pytest.raises(EnvError, match="env 'box': the client is open already"):
            await client.open()
        await client.close()
        await client.close()
        with pytest.raises(EnvError, match="env 'box': tool go: the client is not open"):
            await client.call_tool("go", {})

    play(fake, game, headers={"x-token": "secret"}, prefix="/base")
    card, first, second, third, last = fake.requests
    assert (card.path, first.path, last.path) == ("/base/.well-known/agent-env.json", "/base/mcp", "/base/mcp")
    assert "mcp-session-id" not in first.headers
    assert {request.headers["x-token"] for request in fake.requests} == {"secret"}
    assert fake.methods == ["initialize", "notifications/initialized", "tools/call"]
    for request in (second, third, last):
        assert request.headers["mcp-session-id"] == "s1"
        assert request.headers["mcp-protocol-version"] == "2025-06-18"
    assert last.method == "DELETE"
    assert json.loads(third.body)["params"] == {"name": "go", "arguments": {"a": 1}}


def sse(text: str, status: int = 200) -> Response:
    return Response(status, text.encode(), "text/event-stream")


def event(message: Any) -> str:
    return f"event: message\ndata: {json.dumps(message)}\n\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response(200, b"<html>", "text/html"), "unexpected reply of type 'text/html'"),
        (Response(200, b"{", "application/json"), "the reply is no JSON"),
        (Response(200, b"[]", "application/json"), "the reply is no JSON-RPC object"),
        (Response(200, b"{}", "application/json"), "the reply has no result object"),
        (Response(200, b'{"result": NaN}', "application/json"), "NaN is no JSON value"),
        (Response(200, b'{"result": 3}', "application/json"), "the reply has no result object"),
        (json_response({"error": {"code": -32603, "message": "boom"}}), r"boom \(code -32603\)"),
        (json_response({"error": "text"}), "text"),
        (Response(202, b"", None), "unexpected reply of type ''"),
        (Response(500, b"proxy says no", "text/plain"), "HTTP 500: proxy says no"),
        (json_response({"error": {"message": "bad request"}}, 400), "HTTP 400: bad request"),
        (Response(404, b"", None), "its state is gone"),
        (sse(""), "the event stream ended before the reply"),
        (sse('data: {"id": 2, "result": {}}'), "the event stream ended before the reply"),
        (sse("data: {nonsense\n\n"), "an event of the reply is no JSON"),
        (sse(event({"jsonrpc": "2.0", "id": 99, "result": OK})), "the event stream ended before the reply"),
        ({"content": "text"}, "no list of content parts"),
        ({"content": [{"text": "a"}]}, "no list of content parts"),
        ({"content": [{"type": "text", "text": 3}]}, "a text part of the result has no text"),
        (Response(302, b"", None, {"location": "http://elsewhere/mcp"}), "HTTP 302"),
        (Response(307, b"", None, {"location": "http://elsewhere/mcp"}), "redirected to 'http://elsewhere/mcp'"),
        (Response(307, b"", None, {"location": "/mcp"}), "more than 5 redirects"),
    ],
)
def test_nonsense_is_the_envs_failure(answer: Any, said: str) -> None:
    fake = Fake()
    fake.answers["tools/call"] = answer

    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvError, match=f"env 'box': tool go: .*{said}"):
            await call(client)
        assert fake.methods.count("tools/call") == (5 if "redirects" in said else 1)  # nothing is retried

    play(fake, game)


def test_replies_in_a_stream_among_other_messages() -> None:
    fake = Fake()

    def answer(message: Any) -> Response:
        return sse(
            "\ufeff: hello\n\nid: 7\ndata:\n\nevent: ping\ndata: x\n\n"
            + event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
            + event({"jsonrpc": "2.0", "id": "x", "method": "ping"})
            + event({"jsonrpc": "2.0", "id": "y", "method": "sampling/createMessage"})
            + event({"jsonrpc": "2.0", "id": 99, "result": {}})
            + event({"jsonrpc": "2.0", "id": message["id"], "result": OK})
        )

    fake.answers["tools/call"] = answer

    async def game(client: EnvClient) -> None:
        assert (await client.call_tool("go", {})).text == "fine"
        answers: list[Any] = []
        for _ in range(500):
            answers = [json.loads(request.body) for request in fake.requests if b'"id":"' in request.body]
            if len(answers) == 2:
                break
            await asyncio.sleep(0.01)
        assert {"jsonrpc": "2.0", "id": "x", "result": {}} in answers
        refused = next(one for one in answers if one.get("id") == "y")
        assert refused["error"]["code"] == -32601

    play(fake, game)


def test_a_stream_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_env.env.transport.plain._LINGER", 0.05)
    fake = Fake()
    left = asyncio.Event()

    async def endless(message: Any) -> AsyncIterator[bytes]:
        try:
            yield event({"jsonrpc": "2.0", "id": message["id"], "result": OK}).encode()
            await asyncio.Event().wait()
        finally:
            left.set()

    def answer(message: Any) -> Response:
        return Response(200, endless(message), "text/event-stream")

    fake.answers["tools/call"] = answer

    async def game(client: EnvClient) -> None:
        assert (await client.call_tool("go", {})).text == "fine"
        assert not left.is_set()
        async with asyncio.timeout(10):
            await left.wait()

    play(fake, game)


def test_refused_parameters_are_the_callers_mistake() -> None:
    fake = Fake()
    fake.answers["tools/call"] = json_response({"error": {"code": -32602, "message": "a is missing"}})

    async def game(client: EnvClient) -> None:
        result = await client.call_tool("go", {})
        assert (result.is_error, result.text) == (True, "a is missing")

    play(fake, game)


def test_pages_of_tools() -> None:
    fake = Fake()

    def page(message: dict[str, Any]) -> Response:
        result: dict[str, Any] = {"tools": [{"name": f"t{message['params'].get('cursor', 0)}", "inputSchema": None}]}
        if not message["params"]:
            result["nextCursor"] = "2"
        return json_response({"id": message["id"], "result": result})

    fake.answers["tools/list"] = page

    async def game(client: EnvClient) -> None:
        assert [tool.name for tool in await client.list_tools()] == ["t0", "t2"]
        for nonsense in ({}, {"tools": [3]}, {"tools": [{"name": "a", "inputSchema": 3}]}):
            fake.answers["tools/list"] = nonsense
            with pytest.raises(EnvError, match="env 'box': tools/list: "):
                await client.list_tools()

    play(fake, game)


def test_redirects_within_the_env_are_followed_and_remembered() -> None:
    fake = Fake()
    seen: list[str] = []

    def moved(request: Request) -> Any:
        seen.append(request.target)
        if request.path == "/mcp":
            return Response(307, b"", None, {"location": "https://127.0.0.1/mcp/?a=1"})
        return fake(request)

    async def game(client: EnvClient) -> None:
        await call(client)
        assert seen.count("/mcp") == 1
        assert seen.count("/mcp/?a=1") == 3

    play(moved, game)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (Response(500, b"oops", "text/plain"), "card: HTTP 500: oops"),
        (Response(200, b"{", "application/json"), "Expecting"),
        ([], "its card is no JSON object"),
        ({"capabilities": []}, "'capabilities' is no object"),
        ({"children_environments": {}}, "'children_environments' is no list"),
    ],
)
def test_cards_that_are_none(card: Any, said: str) -> None:
    fake = Fake()
    fake.card = card

    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvError, match=f"env 'box': .*{said}"):
            await client.open()

    play(fake, game, opened=False)


def test_servers_that_are_no_mcp_servers() -> None:
    fake = Fake()

    async def game(client: EnvClient) -> None:
        answers: list[tuple[Any, str]] = [
            (Response(404, b"Not Found", "text/plain"), "HTTP 404: Not Found"),
            ({}, "the reply has no protocolVersion"),
            (json_response({"error": {"code": 1, "message": "no"}}), r"no \(code 1\)"),
        ]
        for answer, said in answers:
            fake.answers["initialize"] = answer
            with pytest.raises(EnvError, match=f"env 'box': initialize: {said}"):
                await client.open()

    play(fake, game, opened=False)


def test_operations_of_a_card() -> None:
    fake = Fake()
    fake.answers |= {"data/reset": {}, "data/get": {"parts": []}}

    async def game(client: EnvClient) -> None:
        await client.data_reset()  # an older card does not say: all three may be there
        fake.answers["data/get"] = json_response({"error": {"code": -32601, "message": "method not found"}})
        with pytest.raises(EnvRequestError, match="data/get: method not found") as missing:
            await client.data_get()
        assert (missing.value.code, missing.value.applied) == (-32601, "no")
        fake.answers["data/get"] = {"parts": [3]}
        with pytest.raises(EnvError, match="no list of parts"):
            await client.data_get()
        fake.answers["data/add"] = Response(503, b"busy", "text/plain")
        with pytest.raises(EnvRequestError, match=r"busy \[HTTP 503\]") as busy:
            await client.data_add([{"kind": "text", "text": "a"}])
        assert (busy.value.code, busy.value.applied, busy.value.retryable) == (None, "unknown", False)
        with pytest.raises(EnvError, match="the parts are no JSON"):
            await client.data_add([{"kind": object()}])

    play(fake, game)
    fake.card = {"name": "fake", "capabilities": {"operations": []}}

    async def none(client: EnvClient) -> None:
        with pytest.raises(EnvUnsupported, match=r"data/reset is not served by this env \(served: none\)"):
            await client.data_reset()

    play(fake, none)


GATEWAY: dict[str, Any] = {
    "name": "gateway",
    "capabilities": {"extensions": [{"uri": "urn:agentenv:clock/v1", "params": {"endpoint": "/clock"}}]},
    "children_environments": [
        {
            "name": name,
            "url": f"/svc/mcp-{name}/agentenv",
            "capabilities": {
                "operations": ["data/reset"],
                "extensions": [
                    {
                        "uri": "urn:x:go/v1",
                        "params": {
                            "endpoint": f"/svc/mcp-{name}/ext/go",
                            "methods": {"a": {}, "b": {"method": "get", "endpoint": f"/svc/mcp-{name}/b?k=1"}},
                        },
                    },
                    {"uri": f"urn:only:{name}", "params": {"endpoint": f"/svc/mcp-{name}/only"}},
                    {"uri": "urn:declared", "params": None},
                ],
            },
        }
        for name in ("one", "two")
    ],
}


def test_services_behind_a_gateway() -> None:
    fake = Fake()
    fake.card = GATEWAY
    targets: list[tuple[str, str]] = []

    def gateway(request: Request) -> Any:
        targets.append((request.method, request.target))
        if request.path.startswith(("/svc", "/clock")):
            return json_response({"result": {}} if request.path.endswith("agentenv") else {"at": request.path})
        return fake(request)

    async def game(client: EnvClient) -> None:
        assert client.services() == ("one", "two")
        assert await client.call_extension("urn:x:go/v1", {}, service="two") == {"at": "/svc/mcp-two/ext/go"}
        assert await client.call_extension("urn:only:two", {}) == {"at": "/svc/mcp-two/only"}
        assert await client.call_extension("urn:agentenv:clock/v1", {}) == {"at": "/clock"}
        await client.call_extension("urn:x:go/v1", {"q": [1], "w": "ü"}, method="b", service="one")
        assert targets[-1] == ("GET", "/svc/mcp-one/b?k=1&q=%5B1%5D&w=%C3%BC")
        assert client.advertises("urn:only:two")
        assert not client.advertises("urn:only:two", service="one")
        with pytest.raises(EnvError, match=r"no service 'three' \(there are: one, two\)"):
            await client.call_extension("urn:x:go/v1", {}, service="three")
        with pytest.raises(EnvError, match="does not list extension urn:only:two"):
            await client.call_extension("urn:only:two", {}, service="one")
        with pytest.raises(EnvError, match="declared only"):
            await client.call_extension("urn:declared", {}, service="one")
        await client.data_reset()
        assert targets[-1] == ("POST", "/agentenv")  # the gateway says which is meant, or that it cannot

    fake.answers["data/reset"] = {}
    play(gateway, game)
    fake.card = {**GATEWAY, "children_environments": GATEWAY["children_environments"][:1]}

    async def single(client: EnvClient) -> None:
        await client.data_reset()
        assert targets[-1] == ("POST", "/svc/mcp-one/agentenv")
        with pytest.raises(EnvError, match="served: data/reset"):
            await client.data_get()

    play(gateway, single)


def test_deadlines_and_cancellation_leave_nothing() -> None:
    fake = Fake()
    hanging = asyncio.Event

    async def hang(_: Any) -> Response:
        await hanging().wait()
        return Response(200)

    fake.answers["tools/call"] = hang

    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvTimeout, match=r"env 'box': tool go: no whole reply within 0\.05 s"):
            await client.call_tool("go", {}, timeout=0.05)
        task = asyncio.create_task(client.call_tool("go", {}))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        fake.answers["tools/call"] = OK
        assert (await client.call_tool("go", {})).text == "fine"  # replies never shift
        fake.answers["tools/call"] = hang
        task = asyncio.create_task(client.call_tool("go", {}))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(EnvError, match="closed by this side"):
            await task

    play(fake, game)


def test_a_call_that_is_given_up_gives_its_connection_up(tmp_path: Path) -> None:
    async def main() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            while await reader.read(65536):
                pass
            left.set()
            writer.close()

        server = await asyncio.start_unix_server(silent, sock=listen_uds(tmp_path / "s"))
        transport = open_transport(Endpoint("http://env", uds=str(tmp_path / "s")))
        for deadline in (0.05, 60.0):
            asking = asyncio.create_task(transport.request(Outgoing("GET", "/"), timeout=deadline))
            await asked.wait()
            if deadline < 1:
                with pytest.raises(TransportTimeout):
                    await asking
            else:
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            async with asyncio.timeout(10):
                await left.wait()
            asked.clear()
            left.clear()
        await transport.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_too_large_a_reply() -> None:
    fake = Fake()
    fake.answers["tools/call"] = {"content": [{"type": "text", "text": "x" * 5000}]}

    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvError, match="env 'box': tool go: the reply is larger than 4000 bytes"):
            await call(client)

    play(fake, game, max_reply=4000)


def raw_server(tmp_path: Path, replies: Callable[[bytes], bytes | None], game: Game) -> None:
    """A server that answers bytes with bytes; `None` = it closes the connection."""

    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                reply = replies(data)
                if reply is None:
                    break
                writer.write(reply)
            writer.close()

        sock = listen_uds(tmp_path / "s")
        server = await asyncio.start_unix_server(serve, sock=sock)
        client = EnvClient(Endpoint("http://env", uds=str(tmp_path / "s")), name="box")
        try:
            await game(client)
        finally:
            await client.close()
            server.close()
            await server.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (None, "the connection ended without a reply"),
        (b"SSH-2.0\r\n\r\n", "bad status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "bad Content-Length"),
        (b"HTTP/1.1 101 Upgrade\r\n\r\n", "switched protocols"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "larger than"),
    ],
)
def test_bytes_that_are_no_reply(tmp_path: Path, reply: bytes | None, said: str) -> None:
    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvError, match=f"env 'box': card: .*{said}"):
            await client.open()

    raw_server(tmp_path, lambda _: reply, game)


def test_bytes_nobody_asked_for_end_the_connection(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def reply(data: bytes) -> bytes:
        asked.append(data)
        return b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    async def game(client: EnvClient) -> None:
        for _ in range(2):
            with pytest.raises(EnvError, match="card: HTTP 500"):
                await client.open()
        assert len(asked) == 2

    raw_server(tmp_path, reply, game)


def test_nobody_listens(tmp_path: Path) -> None:
    async def main() -> None:
        client = EnvClient(Endpoint("http://env", uds=str(tmp_path / "none")), name="box")
        with pytest.raises(EnvError, match=r"env 'box': card: no connection to .*none: "):
            await client.open()
        sock = listen_tcp("127.0.0.1", 0)
        port = sock.getsockname()[1]
        sock.close()
        with pytest.raises(EnvError, match=f"no connection to 127.0.0.1:{port}"):
            await EnvClient(Endpoint(f"http://127.0.0.1:{port}"), name="box").open()
        for bad in ("ftp://x", "http://", "http://x:99999"):
            with pytest.raises(EnvError, match="env 'box': bad address"):
                await EnvClient(Endpoint(bad), name="box").open()

    asyncio.run(main())


def test_secrets_stay_out_of_texts() -> None:
    endpoint = Endpoint("https://h", headers={"authorization": "hidden"})
    assert "hidden" not in repr(endpoint)
    assert "hidden" not in repr(EnvClient(endpoint, name="box"))
