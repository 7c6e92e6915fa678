"""The stand-in keeps the session semantics that a real session server was observed to have."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.testing.standin import Fault, StandInModel, call, calls, say, strict_match

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

USER = {"role": "user", "content": "Go."}
TOOL = {"role": "tool", "tool_call_id": "x", "content": "a wall"}


class Client:
    """A raw client of one session."""

    def __init__(self, model: StandInModel, http: httpx.AsyncClient, base_url: str) -> None:
        self.model, self.http, self.base_url = model, http, base_url

    async def chat(self, messages: list[dict[str, Any]], **fields: Any) -> httpx.Response:
        body = {"messages": messages, "model": "m", **fields}
        return await self.http.post(f"{self.base_url}/v1/chat/completions", json=body)

    async def message(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        response = await self.chat(messages, **fields)
        assert response.status_code == 200, response.text
        return dict(response.json()["choices"][0]["message"])

    @property
    def trained(self) -> list[int]:
        return [sample.trained_tokens for sample in self.model.samples(self.base_url)]

    @property
    def generated(self) -> int:
        return self.model.session(self.base_url).generated


def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    return calls(("look", '{"a":1}'), content=f"\n\nturn {len(messages)} ")


@asynccontextmanager
async def standin(session: str = "v1", reply: Any = policy, **options: Any) -> AsyncGenerator[Client]:
    async with StandInModel(reply, session, **options) as model, httpx.AsyncClient(timeout=20) as http:
        created = await http.post(f"{model.url}/sessions")
        yield Client(model, http, f"{model.url}/sessions/{created.json()['session_id']}")


def test_the_answer_has_the_engines_shape() -> None:
    async def main() -> None:
        async with standin() as client:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/sessions/[0-9a-f]{32}", client.base_url)
            answer = (await client.chat([USER], temperature=1.0, top_k=-1)).json()
            assert {"id", "object", "created", "model", "usage", "metadata", "choices"} <= set(answer)
            (choice,) = answer["choices"]
            assert choice["finish_reason"] == "tool_calls"
            meta = choice["meta_info"]
            assert meta["completion_tokens"] == len(meta["output_token_logprobs"]) == client.generated
            usage = answer["usage"]
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            message = choice["message"]
            assert (message["role"], message["content"], message["reasoning_content"]) == (
                "assistant",
                "\n\nturn 1 ",
                None,
            )
            (item,) = message["tool_calls"]
            assert re.fullmatch("call_[0-9a-f]{24}", item["id"])
            assert (item["type"], item["index"]) == ("function", 0)
            assert item["function"] == {"name": "look", "arguments": '{"a":1}'}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "content", "count", "finish"),
    [
        (say("hi"), "hi", 0, "stop"),
        ("raw", "raw", 0, "stop"),
        (None, "", 0, "stop"),
        (call("look", a=1), "", 1, "tool_calls"),
        (calls(("a", "null"), ("b", "[1]"), content="x"), "x", 2, "tool_calls"),
        ({"content": None, "tool_calls": [{"name": "look"}]}, "", 1, "tool_calls"),
    ],
)
def test_replies_of_a_policy(reply: Any, content: str, count: int, finish: str) -> None:
    async def main() -> None:
        def always(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
            return reply

        async with standin(reply=always) as client:
            choice = (await client.chat([USER])).json()["choices"][0]
            assert choice["message"]["content"] == content
            assert len(choice["message"]["tool_calls"] or []) == count
            assert choice["finish_reason"] == finish

    asyncio.run(main())


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_a_verbatim_echo_is_trained_token_for_token(session: str) -> None:
    async def main() -> None:
        async with standin(session) as client:
            messages: list[dict[str, Any]] = [USER]
            for _ in range(3):
                messages += [await client.message(messages), TOOL]
            assert client.trained == [client.generated]

    asyncio.run(main())


CALL: dict[str, Any] = {
    "id": "call_1",
    "index": 0,
    "type": "function",
    "function": {"name": "look", "arguments": '{"a": 1}'},
}
STORED: dict[str, Any] = {
    "role": "assistant",
    "content": "\n\nturn 1 ",
    "reasoning_content": "hm",
    "tool_calls": [CALL],
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**STORED, **fields}


def with_call(**fields: Any) -> dict[str, Any]:
    return changed(tool_calls=[{**CALL, **fields}])


def without(key: str) -> dict[str, Any]:
    return changed(tool_calls=[{name: value for name, value in CALL.items() if name != key}])


SAFE = [STORED, with_call(index=7), without("index"), changed(refusal=None, annotations=[])]
MISMATCHES = [
    changed(reasoning_content=None),
    {"role": "assistant", "content": STORED["content"]},
    with_call(function={"name": "look", "arguments": '{"a":1}'}),
    with_call(function={"name": "look", "arguments": {"a": 1}}),
    without("type"),
    changed(content=None),
    changed(content="turn 1"),
    changed(role="user"),
]


@pytest.mark.parametrize("echo", SAFE)
def test_echoes_that_match(echo: dict[str, Any]) -> None:
    assert strict_match(STORED, echo)


@pytest.mark.parametrize("echo", MISMATCHES)
def test_echoes_that_do_not(echo: dict[str, Any]) -> None:
    assert not strict_match(STORED, echo)


def test_empty_null_and_missing_are_one() -> None:
    stored = {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None}
    echoes: list[dict[str, Any]] = [{"role": "assistant"}, {"role": "assistant", "content": None, "tool_calls": []}]
    for echo in echoes:
        assert strict_match(stored, echo)


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_a_changed_echo_is_accepted_in_silence_and_not_trained(session: str) -> None:
    async def main() -> None:
        async with standin(session) as client:
            first = await client.message([USER])
            stripped = {**first, "content": first["content"].strip()}
            second = await client.message([USER, stripped, TOOL])
            await client.message([USER, stripped, TOOL, second, TOOL])
            trained = client.trained
            assert sum(trained) == client.generated if session == "v2" else sum(trained) < client.generated
            assert len(trained) == (2 if session == "v2" else 1)

    asyncio.run(main())


def test_v1_takes_back_one_turn_and_refuses_more() -> None:
    async def main() -> None:
        async with standin() as client:
            first = await client.message([USER])
            second = await client.message([USER, first, TOOL])
            await client.message([USER, first, TOOL, second, TOOL])
            again = await client.chat([USER, first, TOOL, second, {**TOOL, "content": "another wall"}])
            assert again.status_code == 200
            assert client.model.session(client.base_url).history.rollbacks == 1
            refused = await client.chat([USER])
            assert refused.status_code == 400
            assert refused.json()["error"].startswith("rollback failed: discard_count=3")

    asyncio.run(main())


def test_v2_keeps_both_roots_of_a_retried_first_turn_and_trims_later_retries() -> None:
    async def main() -> None:
        async with standin("v2") as client:
            first = await client.message([USER])
            await client.message([USER, first, TOOL])
            await client.message([USER, first, TOOL])
            assert len(client.trained) == 1
            await client.message([USER])
            assert len(client.trained) == 2

    asyncio.run(main())


@pytest.mark.parametrize(("session", "count"), [("v1", 1), ("v2", 2)])
def test_chats_on_one_history_at_once(session: str, count: int) -> None:
    async def main() -> None:
        async with standin(session) as client:
            first, second = await asyncio.gather(client.chat([USER]), client.chat([USER]))
            assert (first.status_code, second.status_code) == (200, 200)
            assert len(client.trained) == count

    asyncio.run(main())


def test_extending_a_cut_reply() -> None:
    async def main() -> None:
        faults = {0: Fault.ends("length")}
        async with standin("v1", faults=faults) as client:
            first = await client.message([USER])
            cut = client.generated
            assert (await client.chat([USER, first, TOOL])).status_code == 200
            (sample,) = client.model.samples(client.base_url)
            assert (sample.status, sample.trained_tokens) == ("truncated", cut)
        async with standin("v2", faults=faults) as client:
            first = await client.message([USER])
            refused = await client.chat([USER, first, TOOL])
            assert (refused.status_code, list(refused.json())) == (409, ["error"])

    asyncio.run(main())


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_an_aborted_reply_ends_the_sample(session: str) -> None:
    async def main() -> None:
        async with standin(session, faults={1: Fault.ends("abort")}) as client:
            first = await client.message([USER])
            second = await client.chat([USER, first, TOOL])
            assert second.json()["choices"][0]["finish_reason"] == "abort"
            aborted = second.json()["choices"][0]["message"]
            assert (await client.chat([USER, first, TOOL, aborted, TOOL])).status_code == 200
            (sample,) = client.model.samples(client.base_url)
            assert sample.status == "aborted"

    asyncio.run(main())


def test_max_tokens_cut_a_reply() -> None:
    async def main() -> None:
        async with standin() as client:
            answer = (await client.chat([USER], max_tokens=4)).json()
            assert answer["choices"][0]["finish_reason"] == "length"
            assert answer["choices"][0]["message"]["tool_calls"] is None

    asyncio.run(main())


def test_statuses_and_shapes_of_errors() -> None:
    async def main() -> None:
        faults = {
            1: Fault.context(),
            2: Fault.plain_error(),
            3: Fault.error(502),
            4: Fault.error(409),
            5: Fault.slow(0.01),
        }
        async with standin(faults=faults) as client:
            await client.message([USER])
            context = await client.chat([USER])
            assert context.status_code == 400
            assert "longer than the model's context length" in context.json()["message"]
            plain = await client.chat([USER])
            assert (plain.status_code, plain.text) == (500, "Internal Server Error")
            for status in (502, 409):
                answer = await client.chat([USER])
                assert (answer.status_code, list(answer.json())) == (status, ["error"])
            assert (await client.chat([USER])).status_code == 200
            url = f"{client.base_url}/v1/chat/completions"
            for body in (b"{", b"[1]", b'{"messages": 3}', b'{"messages": [], "chat_template_kwargs": 1}'):
                assert (await client.http.post(url, content=body)).status_code == 400
            developer = [USER, await client.message([USER]), {"role": "developer", "content": "x"}]
            assert (await client.chat(developer)).status_code == 400
            assert (await client.http.get(client.base_url)).status_code == 200
            assert (await client.http.delete(client.base_url)).status_code == 204
            for answer in (await client.http.get(client.base_url), await client.chat([USER])):
                assert (answer.status_code, list(answer.json())) == (404, ["error"])

    asyncio.run(main())


def test_a_policy_that_raises_answers_500() -> None:
    def broken(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        raise KeyError("day")

    async def main() -> None:
        async with standin(reply=broken) as client:
            answer = await client.chat([USER])
            assert (answer.status_code, answer.text) == (500, "KeyError: 'day'")

    asyncio.run(main())


def test_a_policy_cannot_change_what_is_recorded() -> None:
    def greedy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        messages.clear()
        tools.clear()
        return say("x")

    async def main() -> None:
        async with standin(reply=greedy) as client:
            first = await client.message([USER], tools=[{"type": "function"}])
            await client.message([USER, first, TOOL], tools=[{"type": "function"}])
            assert client.trained == [client.generated]

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "after"])
def test_dropped_connections(when: Any) -> None:
    async def main() -> None:
        async with standin(faults={0: Fault.dropped(when)}) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.chat([USER])
            records = (await client.http.get(client.base_url)).json()["records"]
            assert len(records) == (1 if when == "after" else 0)

    asyncio.run(main())


def test_streams_are_one_chunk() -> None:
    async def main() -> None:
        async with standin() as client:
            answer = await client.chat([USER], stream=True)
            first, second, _ = answer.text.split("\n\n")
            assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"]["content"] == "\n\nturn 1 "
            assert second == "data: [DONE]"
            assert client.trained == [client.generated]

    asyncio.run(main())


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_the_samples_operation(session: str) -> None:
    async def main() -> None:
        async with standin(session) as client:
            empty = (await client.http.post(f"{client.base_url}/samples", json={"max_seq_len": None})).json()
            assert empty["samples"] == []
            first = await client.message([USER])
            await client.message([USER, first, TOOL])
            verdict = {"reward": 0.5, "note": "x", "leaf": "mine"}
            body = {"max_seq_len": None, "metadata": verdict}
            (sample,) = (await client.http.post(f"{client.base_url}/samples", json=body)).json()["samples"]
            assert (
                len(sample["loss_mask"])
                == sample["response_length"]
                == len(sample["tokens"]) - len(client.model.session(client.base_url).history.active()[0].prompt)
            )
            if session == "v2":
                assert (sample["reward"], sample["metadata"]["note"]) == (0.5, "x")
                assert "leaf" not in sample["metadata"]
            else:
                assert (sample["reward"], sample["metadata"]) == (None, {})

    asyncio.run(main())


def test_max_seq_len_cuts_samples_by_turns() -> None:
    async def main() -> None:
        async with standin() as client:
            first = await client.message([USER])
            second = await client.message([USER, first, TOOL])
            await client.message([USER, first, TOOL, second, TOOL])
            turns = client.model.session(client.base_url).history.active()

            def cut(limit: int) -> list[tuple[str, int]]:
                samples = client.model.samples(client.base_url, max_seq_len=limit)
                return [(sample.status, sample.trained_tokens) for sample in samples]

            both = len(turns[0].completion) + len(turns[1].completion)
            assert cut(len(turns[2].tokens)) == [("completed", client.generated)]
            # Inside an observation: the later turn is dropped.
            assert cut(len(turns[2].prompt)) == [("completed", both)]
            # Inside a reply: it is cut there.
            assert cut(len(turns[2].prompt) + 3) == [("truncated", both + 3)]
            assert cut(3) == []

    asyncio.run(main())


def test_a_context_limit() -> None:
    async def main() -> None:
        async with standin(context=100) as client:
            first = await client.message([USER])
            refused = await client.chat([USER, first, {**TOOL, "content": "x" * 200}])
            assert refused.status_code == 400
            assert "context length" in refused.text

    asyncio.run(main())


def test_sessions_are_apart_and_many_chats_run_at_once() -> None:
    async def main() -> None:
        async with standin("v2") as client:
            urls = [client.model.open_session() for _ in range(50)]
            clients = [Client(client.model, client.http, url) for url in urls]
            await asyncio.gather(*(one.message([USER]) for one in clients))
            assert all(one.trained == [one.generated] for one in clients)

    asyncio.run(main())


def test_an_unknown_kind_of_session_is_refused() -> None:
    with pytest.raises(ValueError, match="v3"):
        StandInModel(policy, "v3")
