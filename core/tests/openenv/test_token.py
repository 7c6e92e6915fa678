"""The token: asked for everywhere but at ``/health``, and never shown."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from agent_env.openenv import build_app
from agent_env.openenv.security import warn_if_open
from starlette.routing import Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

TOKEN = "s3cret-token"
WRONG = [None, "", "s3cret-toke", "s3cret-token2", "S3CRET-TOKEN", "ü"]


def test_every_route_but_health_asks_for_it(serve: Any, raw: Any, world: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    url = serve(token=TOKEN)
    app = build_app("", engine=world.engine, token=TOKEN)
    assert TOKEN not in repr(app.__dict__) + repr(app.user_middleware) + repr(vars(app.state))
    plain = {route.path for route in app.routes if isinstance(route, Route)}
    sockets = {route.path for route in app.routes if isinstance(route, WebSocketRoute)}
    assert {"/reset", "/openapi.json", "/docs", "/{env}/tasks"} <= plain
    assert sockets == {"/ws", "/mcp"}

    with httpx.Client(base_url=url, trust_env=False) as http:
        for path in [*plain, "/nothing", "/health/", "//health"]:
            for method in ("GET", "POST", "PUT", "OPTIONS"):
                for wrong in WRONG:
                    headers = {} if wrong is None else {b"Authorization": f"Bearer {wrong}".strip().encode()}
                    answer = http.request(method, path.replace("{env}", "x"), headers=headers)
                    assert (answer.status_code == 401) == (path != "/health"), (method, path, wrong)
                    if path != "/health":
                        assert answer.headers["www-authenticate"] == "Bearer"
        good = {"Authorization": f"bearer  {TOKEN}"}
        assert http.get("/metadata", headers=good).status_code == 200
        assert http.get("/metadata", headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401
        both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
        assert http.get("/metadata", headers=both).status_code == 401
        assert http.get(f"/metadata?token={TOKEN}").status_code == 401

    async def main() -> None:
        for path in [*sockets, "/nothing", "/ws?wait=1", "/health"]:
            for wrong in (None, "other"):
                with pytest.raises(InvalidStatus) as refused:
                    async with raw(url, path, token=wrong):
                        pass
                assert refused.value.response.status_code == 401
        async with raw(url, token=TOKEN) as ws:
            assert (await ws.reset())["type"] == "observation"

    asyncio.run(main())
    assert not [
        record for record in caplog.records if record.name.startswith("agent_env") and TOKEN in record.getMessage()
    ]


def test_a_server_without_the_response_extension_closes_before_it_accepts(world: Any) -> None:
    app = build_app("", engine=world.engine, token=TOKEN)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("host", "token", "warned"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("0.0.0.0", None, True),
        ("", None, True),
        ("192.0.2.1", None, True),
        ("example.test", None, True),
        ("0.0.0.0", TOKEN, False),
    ],
)
def test_an_open_server_says_so_loudly(host: str, token: str | None, warned: bool, caplog: Any) -> None:
    assert warn_if_open(host, token) is warned
    assert ("NO TOKEN" in caplog.text) is warned
    assert TOKEN not in caplog.text


def test_pages_of_other_origins_are_kept_out_of_an_open_server(serve: Any) -> None:
    url = serve()
    host = url.removeprefix("http://")

    async def main() -> None:
        for origin, welcome in ((f"http://{host}", True), ("http://evil.test", False), ("null", False)):
            async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                answer = await http.post(
                    "/reset", content=b"{}", headers={"Origin": origin, "Content-Type": "text/plain"}
                )
                assert answer.status_code == (200 if welcome else 403)
            address = url.replace("http", "ws") + "/ws"
            if welcome:
                async with connect(address, origin=Origin(origin), proxy=None):
                    pass
            else:
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(address, origin=Origin(origin), proxy=None):
                        pass
                assert refused.value.response.status_code == 403

    asyncio.run(main())
