"""HTTP: health, metadata, schemas, state, ``/mcp``, and reset and step on an env that is used once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.openenv.server import schemas
from agent_env.openenv.server.frames import BadMessage, Full, Refused
from agent_env.openenv.server.messages import flaw, read_action, read_reset
from agent_env.openenv.server.rpc import PARSE_ERROR, answer_rpc, error_body
from agent_env.openenv.wire import read_json, write_json
from fastapi import FastAPI, Request, Response

if TYPE_CHECKING:
    from agent_env.openenv.server.frames import Observation
    from agent_env.openenv.server.hub import Hub

_TASK_KEYS = frozenset({"split", "index", "seed", "episode_id"})


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(write_json(value), status, headers=headers, media_type="application/json")


def refusal(error: Refused) -> Response:
    """The response for a request that is refused."""
    if isinstance(error, BadMessage):
        detail = [{**entry, "loc": ["body", *entry["loc"]]} for entry in error.errors]
        return reply({"detail": detail}, 422)
    if isinstance(error, Full):
        return reply({"detail": str(error), "code": error.code, **error.extra}, 503, {"Retry-After": "1"})
    if error.extra.get("retryable"):
        return reply({"detail": str(error), "code": error.code}, 503, {"Retry-After": "1"})
    return reply({"detail": str(error), "code": error.code}, 400)


async def read_body(request: Request, *, empty: bool = False) -> dict[str, Any]:
    """The JSON object in the body. Raises `Refused`."""
    raw = await request.body()
    if not raw and empty:
        return {}
    try:
        loaded = read_json(raw.decode())
    except ValueError as error:
        raise BadMessage(flaw("json_invalid", f"JSON decode error: {error}")) from None
    if not isinstance(loaded, dict):
        raise BadMessage(flaw("model_type", "Input should be an object", value=loaded))
    return cast("dict[str, Any]", loaded)


def add_routes(app: FastAPI, hub: Hub, version: str) -> None:
    """Add the routes to ``app``."""

    @app.get("/health", tags=["Health"], summary="Health check")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/metadata", tags=["Environment Info"], summary="What is served")
    async def metadata() -> dict[str, str | None]:
        bundle = hub.bundle
        return {
            "name": bundle.name,
            "description": bundle.description,
            "readme_content": None,
            "version": version,
            "author": None,
            "documentation_url": None,
        }

    @app.get("/schema", tags=["Schema"], summary="JSON schemas of action, observation and state")
    async def schema() -> dict[str, Any]:
        return {
            "action": schemas.ACTION,
            "observation": schemas.OBSERVATION,
            "state": schemas.STATE,
            "reset_observation": schemas.RESET_OBSERVATION,
        }

    @app.get("/state", tags=["State Management"], summary="State of a fresh env")
    async def state() -> dict[str, Any]:
        return {"episode_id": None, "step_count": 0}

    @app.post(
        "/reset",
        tags=["Environment Control"],
        summary="Begin an episode, return its first observation and end it",
        openapi_extra=schemas.body_of(schemas.RESET_BODY, required=False),
    )
    async def reset(request: Request) -> Response:
        try:
            wanted = read_reset(await read_body(request, empty=True))
            async with hub.once() as play:
                return _observed(await play.play(wanted, play.arrive(wanted)))
        except Refused as error:
            return refusal(error)

    @app.post(
        "/step",
        tags=["Environment Control"],
        summary="Begin an episode, play one action and end it",
        openapi_extra=schemas.body_of(schemas.STEP_BODY, required=True),
    )
    async def step(request: Request) -> Response:
        try:
            body = await read_body(request)
            if not isinstance(body.get("action"), dict):
                raise BadMessage(flaw("missing" if "action" not in body else "dict_type", "Field required", "action"))
            limit = read_reset({"timeout_s": body["timeout_s"]}).timeout_s if body.get("timeout_s") else None
            action = read_action(cast("dict[str, Any]", body["action"]), timeout_s=limit)
            first = read_reset({key: value for key, value in body.items() if key in _TASK_KEYS})
            async with hub.once() as play:
                play.first = first
                return _observed(await play.play(action, play.arrive(action)))
        except Refused as error:
            return refusal(error)

    @app.post("/mcp", tags=["MCP"], summary="JSON-RPC: sessions, tools/list, tools/call")
    async def mcp(request: Request) -> Response:
        try:
            body: object = read_json((await request.body()).decode())
        except ValueError:
            return reply(error_body(PARSE_ERROR, "Parse error"))
        try:
            return reply(await answer_rpc(hub, body, None))
        except ValueError as error:
            return reply(error_body(-32603, f"the result is no JSON: {error}"))


def _observed(observation: Observation) -> Response:
    if observation.raw is not None:
        done = "true" if observation.done else "false"
        text = f'{{"observation":{observation.raw},"reward":null,"done":{done},"metadata":null}}'
        return Response(text, media_type="application/json")
    try:
        return reply(observation.body())
    except ValueError as error:
        return refusal(Refused(f"the reply is no JSON: {error}"))
