"""The HTTP routes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from agent_env.errors import BundleError, UsageError
from agent_env.openenv import build_app


@pytest.fixture
def http(serve: Any) -> Any:
    url = serve(max_concurrent_envs=1)
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield client


def test_what_the_server_says_of_itself(http: Any, world: Any) -> None:
    assert http.get("/health").json() == {"status": "healthy"}
    metadata = http.get("/metadata").json()
    assert metadata.keys() == {"name", "description", "readme_content", "version", "author", "documentation_url"}
    assert metadata["name"] == world.engine.bundle.name
    schema = http.get("/schema").json()
    assert schema.keys() == {"action", "observation", "state", "reset_observation"}
    assert http.get("/state").json() == {"episode_id": None, "step_count": 0}
    openapi = http.get("/openapi.json").json()
    assert openapi["info"]["version"] == "1.0.0"
    assert {"/reset", "/step", "/state", "/health", "/metadata", "/schema", "/mcp"} <= openapi["paths"].keys()


def test_the_task_api(http: Any, world: Any) -> None:
    (env,) = http.get("/list_environments").json()
    assert http.get(f"/{env.upper()}/splits").json() == [
        {"name": "all", "type": "train"},
        {"name": "eval", "type": "validation"},
        {"name": "single", "type": "validation"},
    ]
    assert http.post(f"/{env}/num_tasks", json={"split": "eval"}).json() == {"num_tasks": 3}
    tasks = http.post(f"/{env}/tasks", json={"split": "eval"}).json()
    assert tasks["env_name"] == env
    assert [task["name"] for task in tasks["tasks"]] == ["plain/0", "plain/1", "plain/2"]
    assert [task["prompt"] for task in tasks["tasks"]] == ["Number 0.", "Number 1.", "Number 2."]
    assert tasks["tasks"][0].keys() == {"id", "name", "index", "prompt", "system_prompt", "toolset"}

    def part(**more: Any) -> list[str]:
        got = http.post(f"/{env}/task_range", json={"split": "eval", **more}).json()["tasks"]
        return [task["name"] for task in got]

    assert part() == ["plain/0", "plain/1", "plain/2"]
    assert part(start=1) == ["plain/1", "plain/2"]
    assert part(start=0, stop=1) == ["plain/0"]
    assert part(start=2, stop=99) == ["plain/2"]
    assert part(start=2, stop=1) == part(start=9) == []
    task = http.post(f"/{env}/task", json={"split": "eval", "index": 1}).json()["task"]
    assert task == tasks["tasks"][1]
    for index in (-1, 3):
        bad = http.post(f"/{env}/task", json={"split": "eval", "index": index})
        assert (bad.status_code, bad.json()) == (400, {"detail": "Invalid task index"})
    assert http.post(f"/{env}/task_range", json={"split": "eval", "start": -1}).status_code == 400
    unknown = http.post(f"/{env}/num_tasks", json={"split": "nowhere"})
    assert unknown.status_code == 400
    assert "all, eval, single" in unknown.json()["detail"]
    assert http.post(f"/{env}/num_tasks", json={"split": "eval", "x": 1}).status_code == 422
    for path in ("splits", "tasks", "num_tasks", "task", "task_range"):
        body = {"split": "eval", "index": 0} if path == "task" else {"split": "eval"}
        answer = http.get(f"/other/{path}") if path == "splits" else http.post(f"/other/{path}", json=body)
        assert answer.status_code == 404
    assert world.deploys == 0


def test_reset_and_step_use_an_env_once(http: Any, world: Any) -> None:
    got = http.post("/reset", json={"split": "single", "index": 1, "episode_id": "one"}).json()
    assert got.keys() == {"observation", "reward", "done", "metadata"}
    assert got["metadata"]["prompt"] == "First."
    assert world.left() == 0
    assert http.post("/reset").json()["metadata"]["task"]["split"] == "all"
    assert http.post("/reset", json={"episode_id": "one"}).status_code == 200

    step = {"action": {"type": "call_tool", "tool_name": "add", "arguments": {"a": 2, "b": 2}}, "request_id": "r"}
    got = http.post("/step", json={**step, "split": "single", "index": 0}).json()
    assert (got["observation"]["result"]["data"], got["reward"], got["done"]) == ("4", None, False)
    assert http.post("/step", json={"action": {"type": "list_tools"}}).json()["observation"]["tools"]
    slow = {"action": {"tool_name": "slow", "arguments": {"seconds": 60}}, "timeout_s": 0.05}
    late = http.post("/step", json=slow).json()
    assert late["metadata"]["agentenv"]["failure"]["kind"] == "tool_timeout"
    assert (late["reward"], late["done"]) == (None, True)
    assert world.left() == 0


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/reset", {"split": "single"}, 422),
        ("/reset", {"index": "x", "split": "single"}, 422),
        ("/reset", {"seed": -1}, 422),
        ("/reset", {"episode_id": 3}, 422),
        ("/reset", [], 422),
        ("/reset", {"split": "nowhere", "index": 0}, 400),
        ("/step", {}, 422),
        ("/step", {"action": 3}, 422),
        ("/step", {"action": {"type": "fly"}}, 422),
        ("/step", {"action": {"type": "list_tools"}, "timeout_s": -1}, 422),
    ],
)
def test_bad_bodies_are_refused_with_words(http: Any, path: str, body: Any, status: int) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == status
    detail = answer.json()["detail"]
    if status == 422:
        assert {"type", "loc", "msg", "input"} == detail[0].keys()
        assert detail[0]["loc"][0] == "body"
    assert http.post("/reset", json={}).status_code == 200


def test_bodies_over_the_limit(serve: Any) -> None:
    url = serve(max_message_bytes=1000)

    def chunks() -> Any:
        for _ in range(100):
            yield b" " * 100

    with httpx.Client(base_url=url, trust_env=False) as http:
        assert http.post("/mcp", content=b" " * 2000).status_code == 413
        assert http.post("/reset", content=chunks()).status_code == 413
        assert http.get("/health").status_code == 200


def test_bad_arguments_of_build_app(tmp_path: Any, world: Any) -> None:
    with pytest.raises(BundleError, match="nothing-here"):
        build_app(tmp_path / "nothing-here")
    with pytest.raises(UsageError, match="max_concurrent_envs"):
        build_app("", engine=world.engine, max_concurrent_envs=0)
    with pytest.raises(UsageError, match="engine"):
        build_app("", engine=world.engine, reward="grade")
    for token in ("", " padded ", "ü", "a\nb"):
        with pytest.raises(UsageError) as error:
            build_app("", engine=world.engine, token=token)
        assert not token.strip() or token not in str(error.value)


def test_a_bundle_that_cannot_be_listed_for_one_task_serves_the_rest(tmp_path: Any) -> None:
    (tmp_path / "tasks").mkdir()
    with pytest.raises(BundleError):
        build_app(tmp_path)


def test_other_middleware_sees_the_websockets(serve: Any, raw: Any, world: Any) -> None:
    seen: list[str] = []

    class Watch:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "websocket":
                seen.append(scope["path"])
            await self.app(scope, receive, send)

    from agent_env.openenv.run import running_server

    async def main() -> None:
        app = build_app("", engine=world.engine)
        app.add_middleware(Watch)
        async with running_server(app) as url, raw(url) as ws:
            assert (await ws.reset())["type"] == "observation"

    asyncio.run(main())
    assert seen == ["/ws"]
