"""The stand-in model server."""

from __future__ import annotations

import asyncio
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.testing.standin.chat import answer_of, make_message, read_request, record
from agent_env.testing.standin.faults import Fault, Faults, fault_of
from agent_env.testing.standin.http import Answer, HttpServer, Request
from agent_env.testing.standin.linear import LinearSession, continued_prompt
from agent_env.testing.standin.samples import Sample, assemble, merge_agent_metadata
from agent_env.testing.standin.session import Session
from agent_env.testing.standin.tokens import completion_tokens, prompt_tokens
from agent_env.testing.standin.tree import TreeSession
from agent_env.testing.standin.turns import SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    Policy = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Mapping[str, Any] | str | None]


class StandInModel:
    """A chat server with Miles' session semantics whose model is a Python function.

    Use it as ``async with StandInModel(reply) as model``; it serves at ``model.url`` from the running loop.

    Args:
        reply: ``reply(messages, tools)`` returns an assistant message (``content``, ``tool_calls``), or a text; see
            `agent_env.testing.standin.call` and `say`. It runs in a thread. What it raises answers 500.
        session: ``"v1"`` (a line) or ``"v2"`` (a tree).
        faults: what goes wrong, by chat call.
        context: tokens that the model can take; longer requests get the engine's 400.
        threads: calls of ``reply`` at once.
    """

    def __init__(
        self,
        reply: Policy,
        session: str = "v1",
        *,
        faults: Faults | None = None,
        context: int | None = None,
        threads: int = 4,
    ) -> None:
        if session not in {"v1", "v2"}:
            raise ValueError(f"session must be 'v1' or 'v2', got {session!r}")
        self.kind = session
        self.sessions: dict[str, Session] = {}
        self._reply = reply
        self._faults = faults
        self._context = context
        self._server = HttpServer(self._handle)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="stand-in")

    @property
    def url(self) -> str:
        """Address of the server; a plain, stateless chat endpoint is at ``<url>/v1/chat/completions``."""
        return self._server.url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._server.__aexit__(exc_type, exc, tb)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def connections(self) -> int:
        """Connections that were made to the server so far."""
        return self._server.connections

    def open_session(self) -> str:
        """A new session; returns the ``base_url`` that an agent function gets."""
        session = Session(secrets.token_hex(16), LinearSession() if self.kind == "v1" else TreeSession())
        self.sessions[session.id] = session
        return f"{self.url}/sessions/{session.id}"

    def session(self, base_url: str) -> Session:
        """The session behind a ``base_url``, deleted ones included."""
        return self.sessions[base_url.rstrip("/").rpartition("/")[2]]

    def samples(
        self, base_url: str, *, max_seq_len: int | None = None, metadata: Mapping[str, Any] | None = None
    ) -> list[Sample]:
        """What the trainer collects at the end: one sample (v1), or one for each kept leaf (v2)."""
        return _samples(self.session(base_url), max_seq_len, metadata)

    async def _handle(self, request: Request) -> Answer:
        try:
            return await self._route(request)
        except SessionError as error:
            return Answer.json({"error": str(error)}, error.status)
        except Exception as error:  # noqa: BLE001  a policy may raise anything; its caller sees a server error
            return Answer.text(f"{type(error).__name__}: {error}", 500)

    async def _route(self, request: Request) -> Answer:
        parts = request.path.strip("/").split("/")
        match (request.method, *parts):
            case ("GET", "health"):
                return Answer.json({"status": "ok"})
            case ("POST", "sessions"):
                return Answer.json({"session_id": self.open_session().rpartition("/")[2]})
            case ("GET", "sessions", session_id):
                session = self._live(session_id)
                records = [turn.record() for turn in session.history.active()]
                return Answer.json({"session_id": session_id, "records": records, "metadata": session.metadata()})
            case ("DELETE", "sessions", session_id):
                self._live(session_id).deleted = True
                return Answer(204)
            case ("POST", "sessions", session_id, "samples"):
                return self._collect(self._live(session_id), request.body)
            case ("POST", "sessions", session_id, "v1", "chat", "completions"):
                return await self._chat(self._live(session_id), request.body)
            case ("POST", "v1", "chat", "completions"):
                return await self._plain_chat(request.body)
            case _:
                return Answer.json({"detail": "Not Found"}, 404)

    def _live(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None or session.deleted:
            raise SessionError(404, f"session not found: session_id={session_id}")
        return session

    async def _chat(self, session: Session, body: bytes) -> Answer:
        number = session.chats
        session.chats += 1
        fault = fault_of(self._faults, session.id, number)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.status is not None:
            return _fault_answer(fault)
        if fault.drop == "before":
            return Answer(drop=True)
        request = read_request(_parse(body))
        session.requests.append(request)
        messages: list[dict[str, Any]] = request["messages"]
        parent = session.history.position(messages)
        prompt = continued_prompt(messages, request.get("tools"), parent)
        self._check_context(prompt)
        answer = await self._generate(request, fault, prompt)
        if session.deleted:
            return Answer.json(answer)
        record(session, parent, request, prompt, answer)
        session.generated += answer["usage"]["completion_tokens"]
        return Answer(drop=True) if fault.drop == "after" else _render(answer, stream=bool(request.get("stream")))

    async def _plain_chat(self, body: bytes) -> Answer:
        request = read_request(_parse(body))
        prompt = prompt_tokens(request["messages"], request.get("tools"))
        self._check_context(prompt)
        return _render(await self._generate(request, Fault(), prompt), stream=bool(request.get("stream")))

    async def _generate(self, request: dict[str, Any], fault: Fault, prompt: list[int]) -> dict[str, Any]:
        # A copy: what a policy does to its arguments must not change what is recorded.
        messages, tools = json.loads(json.dumps([request["messages"], request.get("tools") or []]))
        reply = await asyncio.get_running_loop().run_in_executor(self._threads, self._reply, messages, tools)
        message, finish = make_message(reply, fault, request)
        return answer_of(message, finish, prompt, completion_tokens(message))

    def _check_context(self, prompt: list[int]) -> None:
        if self._context is not None and len(prompt) >= self._context:
            raise SessionError(
                400,
                f"The input ({len(prompt)} tokens) is longer than the model's context length ({self._context} tokens).",
            )

    @staticmethod
    def _collect(session: Session, body: bytes) -> Answer:
        fields = cast("dict[str, Any]", _parse(body) if body else {})
        metadata = fields.get("metadata") if isinstance(session.history, TreeSession) else None
        samples = _samples(session, fields.get("max_seq_len"), metadata)
        session.samples = samples
        return Answer.json({"samples": [sample.as_dict() for sample in samples], "metadata": session.metadata()})


def _samples(session: Session, max_seq_len: int | None, metadata: Mapping[str, Any] | None) -> list[Sample]:
    samples = assemble(session.history.trajectories(), max_seq_len=max_seq_len)
    if isinstance(session.history, TreeSession):
        merge_agent_metadata(samples, metadata)
    return samples


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SessionError(400, f"invalid JSON body: {error}") from error


def _fault_answer(fault: Fault) -> Answer:
    assert fault.status is not None
    if isinstance(fault.body, str):
        return Answer.text(fault.body, fault.status)
    return Answer.json(fault.body, fault.status)


def _render(answer: dict[str, Any], *, stream: bool) -> Answer:
    if not stream:
        return Answer.json(answer)
    choice = answer["choices"][0]
    chunk = {
        **{key: answer[key] for key in ("id", "created", "model", "usage")},
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": choice["message"], "finish_reason": choice["finish_reason"]}],
    }
    text = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    return Answer(200, text.encode(), "text/event-stream")
