"""A model behind an OpenAI-compatible chat endpoint, as evaluations ask it: with a key, rate limits and usage."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from agent_env.evaluation.address import chat_url
from agent_env.evaluation.retry import Throttle, backoff, retry_after
from agent_env.evaluation.usage import Usage, as_count, as_fields
from agent_env.rollout.chat import read_reply
from agent_env.rollout.model import ContextFull, ModelFailed

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import httpx
    from agent_env.rollout.model import Reply

_CONTEXT_WORDS = (
    "context length",
    "context_length",
    "context window",
    "maximum context",
    "longer than the model",
    "max_model_len",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
)
_HOPELESS = {
    401: "it does not accept the key: name the variable that holds it with --api-key-var",
    402: "it wants to be paid",
    403: "it does not allow this",
    404: "is --base-url right, and --model a model of it?",
    405: "is --base-url right?",
}
_ALWAYS_HOPELESS = frozenset({401, 402})
"""The others are about one conversation (moderation, a route) once the endpoint has answered another."""
_AGAIN = frozenset({408, 409, 425, 429})
_LONGEST_TEXT = 500
_SHORTEST_SECRET = 8


class Endpoint:
    """One chat endpoint, shared by all episodes of a run.

    Args:
        base_url: with or without ``/v1`` at its end.
        key: sent as ``Authorization: Bearer``; it is in no text that leaves this object.
        timeout: seconds for one reply, retries and waiting included.
        retries: further attempts after the first, for rate limits, 5xx and broken connections.

    Attributes:
        hopeless: why no further request can succeed, such as a key that is not accepted; `None` while there is hope.
    """

    def __init__(self, base_url: str, *, key: str | None = None, timeout: float = 600.0, retries: int = 6) -> None:
        self.url = chat_url(base_url)
        self.hopeless: str | None = None
        self._key = key
        self._timeout = timeout
        self._retries = retries
        self._throttle = Throttle()
        self._answered = False

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    def redact(self, text: str) -> str:
        """``text`` without the key; a word such as ``EMPTY`` or ``none`` is no secret and stays."""
        return text.replace(self._key, "[key]") if self._key and len(self._key) >= _SHORTEST_SECRET else text

    def new_client(self) -> httpx.AsyncClient:
        """A client for it; close it. Proxy variables count, but not for this machine."""
        import httpx

        local = urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}
        return httpx.AsyncClient(
            verify=_tls(secure=self.url.startswith("https")),
            trust_env=not local,
            timeout=httpx.Timeout(None, connect=10.0),
            headers={"authorization": f"Bearer {self._key}"} if self._key else {},
        )

    async def ask(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> tuple[object, int]:
        """Post a chat; returns the completion and how many attempts beyond the first it took.

        Raises:
            ContextFull: the conversation does not fit.
            ModelFailed: no reply; `hopeless` is set when there never will be one.
        """
        try:
            # ASCII escapes carry any string, half surrogates included, unchanged.
            content = json.dumps(body, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            raise ModelFailed(f"the conversation cannot be sent as JSON: {error}") from error
        retried = 0
        problem = "it did not answer"
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    await self._throttle.wait()
                    answer, problem = await self._once(client, content)
                    if answer is not None:
                        return answer[0], retried
                    if self.hopeless is not None:
                        raise ModelFailed(self.hopeless)
                    retried += 1
                    if retried > self._retries:
                        raise ModelFailed(f"{problem}, {retried} times, at {self.url}")
                    await asyncio.sleep(backoff(retried))
        except TimeoutError as error:
            words = f"no reply within {self._timeout:g} s from {self.url}; the last: {problem}"
            raise ModelFailed(words, "model_timeout") from error

    async def _once(self, client: httpx.AsyncClient, content: bytes) -> tuple[tuple[object] | None, str]:
        """The completion, or what went wrong and may go better."""
        import httpx

        try:
            response = await client.post(self.url, content=content, headers={"content-type": "application/json"})
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            self.hopeless = f"{self.url} is no usable address: {error}"
            return None, self.hopeless
        except httpx.TransportError as error:
            return None, f"the connection failed ({self.redact(str(error)) or type(error).__name__})"
        status = response.status_code
        if status == 200:
            try:
                payload: object = response.json()
            except (ValueError, RecursionError) as error:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    self.hopeless = f"{self.url} streams its reply although it was asked not to: switch that off there"
                    return None, self.hopeless
                # A gateway that gave up half way; asking again is harmless here.
                return None, f"the chat endpoint answered 200 with what is no JSON ({error})"
            fields = as_fields(payload)
            if _has_reply(fields):
                self._answered = True
                return (payload,), ""
            if "error" not in fields:
                return None, "the chat endpoint answered 200 without a message"
            # Gateways pass an engine's error on so; its code is the status that counts.
            status = as_count(as_fields(fields["error"]).get("code")) or 200
        text = self.redact(" ".join(response.text.split()))[:_LONGEST_TEXT]
        said = f"the chat endpoint answered {response.status_code} {text}".rstrip()
        if status == 429 and "insufficient_quota" in text:
            self.hopeless = said
        elif status in _HOPELESS and (status in _ALWAYS_HOPELESS or not self._answered):
            self.hopeless = f"{self.url}: {said}; {_HOPELESS[status]}"
        elif status >= 500 or status in _AGAIN:
            pause = retry_after(response.headers)
            if pause is not None:
                self._throttle.hold(pause)
        elif status in {400, 413, 422} and any(word in text.lower() for word in _CONTEXT_WORDS):
            raise ContextFull(text)
        else:
            raise ModelFailed(said)
        return None, said


class EpisodeModel:
    """The model of one episode, over an `Endpoint`: counts tokens and keeps to the episode's budget.

    Args:
        endpoint: where it is asked.
        client: the HTTP client to use; not closed here.
        request: fields of every request, ``model`` among them.
        max_tokens: tokens that the episode may spend; the reply that goes beyond is still played.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: httpx.AsyncClient,
        request: Mapping[str, Any],
        *,
        max_tokens: int | None = None,
    ) -> None:
        self.usage = Usage()
        self.retried = 0
        self.over_budget = False
        self._endpoint = endpoint
        self._client = client
        self._request = dict(request)
        self._max_tokens = max_tokens

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        if self._max_tokens is not None and self.usage.total >= self._max_tokens:
            self.over_budget = True
            raise ContextFull(f"its budget of {self._max_tokens} tokens is spent")
        body: dict[str, Any] = {
            **self._request,
            "messages": [sendable(message) for message in messages],
            "stream": False,
        }
        if tools:
            body["tools"] = tools
        payload, retried = await self._endpoint.ask(self._client, body)
        self.retried += retried
        self.usage.add(payload)
        return read_reply(payload)


def sendable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as endpoints take it back: they refuse the ``null`` and empty lists of their own replies."""
    if message.get("role") != "assistant":
        return dict(message)
    kept = {key: value for key, value in message.items() if value is not None and value != []}
    if "content" not in kept:
        kept["content"] = None if "tool_calls" in kept else ""
    return kept


def _has_reply(fields: Mapping[str, Any]) -> bool:
    choices: object = fields.get("choices")
    choice: object = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
    return isinstance(as_fields(choice).get("message"), dict)


@functools.cache
def _tls(*, secure: bool) -> ssl.SSLContext:
    """Made once: it is what is dear about a client."""
    import ssl

    import httpx

    return httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
