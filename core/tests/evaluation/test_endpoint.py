"""What an endpoint may answer, and what becomes of it."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.evaluation.address import chat_url, check_base_url, read_key
from agent_env.evaluation.endpoint import Endpoint, EpisodeModel, sendable
from agent_env.evaluation.retry import Throttle, retry_after
from agent_env.rollout import ContextFull, ModelFailed
from agent_env.testing.standin import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.rollout import Reply

KEY = "sk-secret-0123456789"


def hello(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    del messages, tools
    return say("hello")


def always(*answer: Any) -> Callable[[int, dict[str, Any]], Any]:
    """Every request is answered so."""
    return lambda _number, _body: answer


def only(which: int, status: int, body: Any) -> Callable[[int, dict[str, Any]], Any]:
    """One request is answered so."""

    def answer(number: int, _body: dict[str, Any]) -> Any:
        return (status, {}, body) if number == which else None

    return answer


def ask(url: str, times: int = 1, *, max_tokens: int | None = None, **options: Any) -> tuple[list[Reply], EpisodeModel]:
    async def main() -> tuple[list[Reply], EpisodeModel]:
        endpoint = Endpoint(url, **options)
        async with endpoint.new_client() as client:
            model = EpisodeModel(endpoint, client, {"model": "m"}, max_tokens=max_tokens)
            return [await model([{"role": "user", "content": "hi"}], []) for _ in range(times)], model

    return asyncio.run(main())


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_address_with_or_without_v1(chat: Callable[..., Any], suffix: str) -> None:
    server = chat(hello, key=KEY)
    replies, model = ask(check_base_url(server.url + suffix), 2, key=KEY)
    assert [reply.message["content"] for reply in replies] == ["hello", "hello"]
    assert (model.usage.prompt, model.usage.completion, model.usage.replies) == (200, 20, 2)
    assert server.bodies[0] == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}


def test_rate_limits_and_server_errors_are_waited_out(chat: Callable[..., Any]) -> None:
    answers: dict[int, Any] = {
        0: (429, {"retry-after": "0.4"}, {"error": "slow down"}),
        1: (503, {}, "busy"),
        2: (500, {"retry-after-ms": "10"}, ""),
    }

    def faults(number: int, _body: Any) -> Any:
        return answers.get(number)

    server = chat(hello, faults=faults)
    began = time.monotonic()
    replies, model = ask(server.url)
    assert time.monotonic() - began >= 0.4
    assert replies[0].message["content"] == "hello"
    assert model.retried == 3


def test_an_error_behind_status_200_is_an_error(chat: Callable[..., Any]) -> None:
    answers: dict[int, Any] = {0: (200, {}, {"error": {"code": 502, "message": "upstream"}})}

    def faults(number: int, _body: Any) -> Any:
        return answers.get(number)

    replies, model = ask(chat(hello, faults=faults).url)
    assert (replies[0].message["content"], model.retried) == ("hello", 1)
    final = chat(hello, faults=always(200, {}, {"error": {"code": 400, "message": "maximum context length"}}))
    with pytest.raises(ContextFull):
        ask(final.url)
    odd = chat(hello, faults=always(200, {}, {"error": "the engine is down"}))
    with pytest.raises(ModelFailed, match="the engine is down"):
        ask(odd.url)


def test_a_rate_limit_holds_back_every_episode(chat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    held: list[float] = []
    hold = Throttle.hold

    def noticed(throttle: Throttle, seconds: float) -> None:
        hold(throttle, seconds)
        held.append(seconds)

    monkeypatch.setattr(Throttle, "hold", noticed)

    def faults(number: int, _: Any) -> Any:
        times.append(time.monotonic())
        return (429, {"retry-after": "0.5"}, "") if number == 0 else None

    server = chat(hello, faults=faults)

    async def main() -> None:
        endpoint = Endpoint(server.url)
        async with endpoint.new_client() as client:
            first = asyncio.create_task(endpoint.ask(client, {"model": "m", "messages": []}))
            while not held:  # noqa: ASYNC110 - the answer to the first
                await asyncio.sleep(0.01)
            await endpoint.ask(client, {"model": "m", "messages": []})
            await first

    asyncio.run(main())
    assert len(times) == 3
    assert min(times[1:]) - times[0] >= 0.5


def test_an_endpoint_that_stays_broken_is_a_failure(chat: Callable[..., Any]) -> None:
    server = chat(hello, faults=always(502, {}, "bad gateway"))
    with pytest.raises(ModelFailed, match="answered 502 bad gateway, 2 times"):
        ask(server.url, retries=1)
    assert len(server.bodies) == 2


def test_waiting_longer_than_a_reply_may_take_is_a_timeout(chat: Callable[..., Any]) -> None:
    server = chat(hello, faults=always(429, {"retry-after": "3600"}, "later"))
    with pytest.raises(ModelFailed, match=r"no reply within 2 s .* 429 later") as caught:
        ask(server.url, timeout=2)
    assert caught.value.kind == "model_timeout"


def test_nobody_listens(chat: Callable[..., Any]) -> None:
    with pytest.raises(ModelFailed, match="connection failed"):
        ask("http://127.0.0.1:9", retries=0)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "This model's maximum context length is 10 tokens", "code": "x"}}),
        (400, {"error": {"code": "context_length_exceeded"}}),
        (413, "prompt is too long"),
    ],
)
def test_a_full_context_is_no_failure(chat: Callable[..., Any], status: int, body: Any) -> None:
    server = chat(hello, faults=always(status, {}, body))
    with pytest.raises(ContextFull):
        ask(server.url)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("body", ["no json", {"choices": []}, {"choices": [{"message": "text"}]}, [], "[" * 100_000])
def test_nonsense_with_status_200_is_asked_again_and_a_failure_at_last(chat: Callable[..., Any], body: Any) -> None:
    server = chat(hello, faults=always(200, {}, body))
    with pytest.raises(ModelFailed, match=r"answered 200 .*, 2 times"):
        ask(server.url, retries=1)
    assert len(server.bodies) == 2
    passing = chat(hello, faults=only(0, 200, body))
    replies, model = ask(passing.url)
    assert (replies[0].message["content"], model.retried) == ("hello", 1)


def test_an_endpoint_that_streams_all_the_same_is_named(chat: Callable[..., Any]) -> None:
    events = 'data: {"choices": [{"delta": {"content": "hello"}}]}\n\ndata: [DONE]\n\n'
    server = chat(hello, faults=always(200, {"content-type": "text/event-stream; charset=utf-8"}, events))
    with pytest.raises(ModelFailed, match="streams its reply although it was asked not to"):
        ask(server.url)
    assert [body["stream"] for body in server.bodies] == [False]


@pytest.mark.parametrize(("status", "whole_run"), [(401, True), (402, True), (403, False), (404, False), (405, False)])
def test_a_refusal_after_a_reply_is_of_one_conversation_unless_it_is_the_keys(
    chat: Callable[..., Any], status: int, whole_run: bool
) -> None:
    server = chat(hello, faults=only(1, status, "flagged"))

    async def main() -> str | None:
        endpoint = Endpoint(server.url)
        async with endpoint.new_client() as client:
            await endpoint.ask(client, {"messages": []})
            with pytest.raises(ModelFailed, match=f"{status} flagged"):
                await endpoint.ask(client, {"messages": []})
        return endpoint.hopeless

    assert (asyncio.run(main()) is not None) == whole_run


@pytest.mark.parametrize(
    ("status", "body"), [(401, "no"), (403, "no"), (404, "no"), (429, '{"code": "insufficient_quota"}')]
)
def test_what_cannot_succeed_is_asked_once_and_remembered(chat: Callable[..., Any], status: int, body: str) -> None:
    server = chat(hello, faults=always(status, {}, body))

    async def main() -> str | None:
        endpoint = Endpoint(server.url)
        async with endpoint.new_client() as client:
            with pytest.raises(ModelFailed, match=str(status)):
                await endpoint.ask(client, {"messages": []})
        return endpoint.hopeless

    assert str(status) in (asyncio.run(main()) or "")
    assert len(server.bodies) == 1


def test_the_key_is_in_no_error(chat: Callable[..., Any]) -> None:
    server = chat(hello, key="another")
    with pytest.raises(ModelFailed) as caught:
        ask(server.url, key=KEY)
    assert "Bearer [key]" in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY not in repr(Endpoint(server.url, key=KEY))


@pytest.mark.parametrize("key", ["x", "EMPTY", "none", "dummy"])
def test_a_placeholder_is_no_secret(key: str) -> None:
    text = '{"index": 1, "content": "none, EMPTY, dummy, x"}'
    assert Endpoint("http://a.example", key=key).redact(text) == text


def test_usage_that_is_missing_is_counted_as_missing(chat: Callable[..., Any]) -> None:
    for usage in (None, {"prompt_tokens": "7"}, {"prompt_tokens": 5}, {"prompt_tokens": -1, "completion_tokens": 2}):
        _, model = ask(chat(hello, usage=usage).url)
        assert (model.usage.total, model.usage.uncounted) == (0, 1)
    details = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    assert ask(chat(hello, usage=details).url)[1].usage.cached == 4


def test_an_episodes_budget_ends_it(chat: Callable[..., Any]) -> None:
    server = chat(hello)
    with pytest.raises(ContextFull, match="budget of 150 tokens"):
        ask(server.url, 3, max_tokens=150)
    assert len(server.bodies) == 2


def test_replies_go_back_as_endpoints_take_them() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [],
        "refusal": None,
        "reasoning": "r",
    }
    assert sendable(message) == {"role": "assistant", "content": "", "reasoning": "r"}
    assert sendable({"role": "assistant", "content": None, "tool_calls": [1]})["content"] is None
    assert sendable({"role": "tool", "content": None}) == {"role": "tool", "content": None}


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://a.example", "https://a.example/v1/chat/completions"),
        ("https://a.example/api/v1", "https://a.example/api/v1/chat/completions"),
        ("https://a.example/v1beta/openai", "https://a.example/v1beta/openai/chat/completions"),
        ("https://a.example/v1?api-version=2", "https://a.example/v1/chat/completions?api-version=2"),
        ("https://a.example/v1/chat/completions", "https://a.example/v1/chat/completions"),
    ],
)
def test_where_chats_go(base: str, expected: str) -> None:
    assert chat_url(check_base_url(base)) == expected


@pytest.mark.parametrize(
    "base", ["", "a.example", "ftp://a.example", "http://", "http://u:pw@a.example", "http://a:x/", "http://a/?key=pw"]
)
def test_addresses_that_are_none(base: str) -> None:
    with pytest.raises(UsageError, match="--base-url") as caught:
        check_base_url(base)
    assert "pw" not in str(caught.value)


def test_a_key_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    assert read_key("MY_KEY") == KEY
    assert read_key(None) is None
    for wrong in ("", "  ", "a\nb", "clé"):
        monkeypatch.setenv("MY_KEY", wrong)
        with pytest.raises(UsageError, match="--api-key-var MY_KEY"):
            read_key("MY_KEY")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, now=1_000_000) == expected
