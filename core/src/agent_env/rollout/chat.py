"""A model behind an OpenAI chat endpoint."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.rollout.http import new_client
from agent_env.rollout.model import ContextFull, ModelFailed, Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    import httpx

_OWNED = frozenset({"messages", "tools", "stream", "stream_options", "n"})
_CONTEXT_WORDS = (
    "context length",
    "context_length",
    "context window",
    "maximum context",
    "longer than the model",
    "max_model_len",
    "prompt is too long",
    "input is too long",
)


class ChatModel:
    """Posts the conversation to ``<base_url>/v1/chat/completions``.

    Use it as ``async with ChatModel(…) as model:``, so that its calls share a connection; outside of that each call
    makes its own. Transport errors and 5xx are retried on the same messages; nothing else is. Calls must not overlap.

    Args:
        base_url: with or without ``/v1`` at its end.
        request: further fields of the request (sampling), sent as they are.
        timeout: seconds for one reply, retries included.
        retries: further attempts after the first.
        recover: asked before a retry whether the server kept the lost reply; it gives the server's answer, or `None`
            when nothing was kept. A turn that was recorded is so never asked for twice.
        key: sent as ``Authorization: Bearer``; it is in no text that leaves this object.
    """

    def __init__(
        self,
        base_url: str,
        *,
        request: Mapping[str, Any] | None = None,
        timeout: float = 600.0,
        retries: int = 3,
        recover: Callable[[], Awaitable[dict[str, Any] | None]] | None = None,
        key: str | None = None,
    ) -> None:
        root = base_url.rstrip("/")
        self._url = f"{root}/chat/completions" if root.endswith("/v1") else f"{root}/v1/chat/completions"
        self._request = {key: value for key, value in (request or {}).items() if key not in _OWNED}
        self._request.setdefault("model", "default")
        self._timeout = timeout
        self._retries = retries
        self._recover = recover
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._client: httpx.AsyncClient | None = None
        self.retried = 0
        """Attempts beyond the first, over all calls."""

    async def __aenter__(self) -> Self:
        self._client = new_client(self._url)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        body: dict[str, Any] = {**self._request, "messages": messages}
        if tools:
            body["tools"] = tools
        # ASCII escapes carry any string, half surrogates included, unchanged.
        content = json.dumps(body, allow_nan=False).encode()
        try:
            async with asyncio.timeout(self._timeout):
                if self._client is not None:
                    return read_reply(await self._post(self._client, content))
                async with new_client(self._url) as client:
                    return read_reply(await self._post(client, content))
        except TimeoutError as error:
            raise ModelFailed(f"no reply within {self._timeout:g} s from {self._url}", "model_timeout") from error

    async def _post(self, client: httpx.AsyncClient, content: bytes) -> object:
        import httpx

        attempt = 0
        while True:
            lost = False
            try:
                response = await client.post(self._url, content=content, headers=self._headers)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise ModelFailed(f"{self._url} is no usable address: {_words(error)}") from error
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem = f"cannot connect ({_words(error)})"
            except httpx.TransportError as error:
                problem = f"the connection broke ({_words(error)})"
                lost = True
            else:
                if response.status_code == 200:
                    return _json(response)
                problem = _refuse(response)
            attempt += 1
            await asyncio.sleep(min(0.25 * 2**attempt, 5.0) * random.uniform(0.5, 1.0))  # noqa: S311
            if lost and self._recover is not None:
                kept = await self._recover()
                if kept is not None:
                    return kept
            if attempt > self._retries:
                raise ModelFailed(f"{problem}, {attempt} times, at {self._url}")
            self.retried += 1


def _refuse(response: httpx.Response) -> str:
    """Raise for what a retry cannot mend; else what happened, in words."""
    status = response.status_code
    text = " ".join(response.text.split())[:500]
    if status >= 500:
        return f"the chat endpoint answered {status} {text}"
    if status in {400, 413, 422} and any(word in text.lower() for word in _CONTEXT_WORDS):
        raise ContextFull(text)
    if status == 409:
        raise ContextFull(f"the session does not continue a reply that was cut: {text}")
    raise ModelFailed(f"the chat endpoint answered {status}: {text}")


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise ModelFailed(f"the chat endpoint answered 200 with what is no JSON: {error}") from error


def read_reply(payload: object) -> Reply:
    """The reply in a chat completion.

    Raises:
        ModelFailed: it is none.
    """
    fields = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    choices = fields.get("choices")
    choice: object = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise ModelFailed("the chat endpoint answered 200 without a choice")
    choice_fields = cast("dict[str, Any]", choice)
    message = choice_fields.get("message")
    if not isinstance(message, dict):
        raise ModelFailed("the chat endpoint answered 200 without a message")
    finish = choice_fields.get("finish_reason")
    usage = fields.get("usage")
    usage_fields = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
    return Reply(
        message=cast("dict[str, Any]", message),
        finish_reason=finish if isinstance(finish, str) else "stop",
        total_tokens=_count(usage_fields.get("total_tokens")),
        completion_tokens=_count(usage_fields.get("completion_tokens")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
