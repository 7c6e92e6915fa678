"""The HTTP side of the resources server, as NeMo Gym's agents speak to it. Needs the extra ``server``."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.errors import EpisodeFailed, UsageError
from agent_env.training.nemo_gym.service import Service
from agent_env.training.nemo_gym.wire import read_object
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from agent_env.training.nemo_gym.settings import ServerSettings
    from fastapi import Response

COOKIE: Final = "agentenv_session"


def build_app(settings: ServerSettings, *, add: Callable[[FastAPI], None] | None = None) -> FastAPI:
    """POST ``/seed_session``, ``/verify``, and a path for each tool; GET ``/health``.

    Every answer carries the session's cookie, since NeMo Gym's agent keeps the cookies of the last answer only.

    Args:
        settings: the bundle's server, and what a failure becomes.
        add: adds further paths, which tools cannot have.

    Raises:
        UsageError: the settings cannot be used.
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service:
            yield

    app = FastAPI(title="agentenv", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)

    async def health() -> Any:
        return {"status": "healthy", "sessions": len(service)}

    async def seed_session(request: Request) -> Any:
        session_id = await service.seed(read_object(await request.body()))
        return _with_cookie(JSONResponse({}), session_id)

    async def verify(request: Request) -> Any:
        session_id = request.cookies.get(COOKIE)
        answer = await service.verify(session_id, read_object(await request.body()))
        return _with_cookie(JSONResponse(answer), session_id)

    async def call_tool(request: Request) -> Any:
        session_id = request.cookies.get(COOKIE)
        name = str(request.path_params["tool"])
        text = await service.call(session_id, name, await request.body())
        return _with_cookie(PlainTextResponse(text.encode("utf-8", "replace")), session_id)

    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/seed_session", seed_session, methods=["POST"])
    app.add_api_route("/verify", verify, methods=["POST"])
    if add is not None:
        add(app)
    app.add_api_route("/{tool:path}", call_tool, methods=["POST"])
    app.add_exception_handler(UsageError, _refused)
    app.add_exception_handler(EpisodeFailed, _failed)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    return _with_cookie(JSONResponse({"detail": str(error)}, 400), request.cookies.get(COOKIE))


async def _failed(request: Request, error: Exception) -> Response:
    failure = cast("EpisodeFailed", error).failure
    fields = {"kind": failure.kind, "message": failure.message, "retryable": failure.retryable}
    answer = JSONResponse({"detail": f"the episode failed: {failure}", "failure": fields}, 503)
    return _with_cookie(answer, request.cookies.get(COOKIE))


def _with_cookie(response: Response, session_id: str | None) -> Response:
    if session_id is not None and session_id.isascii():
        response.set_cookie(COOKIE, session_id, httponly=True, samesite="lax")
    return response
