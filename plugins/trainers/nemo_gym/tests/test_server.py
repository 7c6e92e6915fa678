"""The resources server as a process of its own, over a served GridSim or a small bundle, spoken to by HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.small import WORD, serve_in_process, small_bundle
from agent_env.training.nemo_gym.adapter import NemoGymAdapter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"
OVER = "The episode is over: this call was not run."


@asynccontextmanager
async def resources(url: str, *options: str, **variables: str) -> AsyncGenerator[str]:
    """The resources server; gives its address."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent_env.training.nemo_gym", url, "--port", "0", *options),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
    )
    assert child.stderr is not None
    try:
        async with asyncio.timeout(30):
            first = (await child.stderr.readline()).decode()
        assert "listening on " in first, first
        yield first.rpartition("listening on ")[2].strip()
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            rest = await child.stderr.read()
            await child.wait()
    assert b"Traceback" not in rest, rest.decode()


async def rows_of(url: str, out: Path, split: str = "train", **settings: Any) -> list[dict[str, Any]]:
    await NemoGymAdapter().write_rows(url, out, RowSettings(**settings))
    return [json.loads(line) for line in (out / f"{split}.jsonl").read_text("utf-8").splitlines()]


def said(text: str, **fields: Any) -> dict[str, Any]:
    """A response whose last words are ``text``."""
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"output": [{"type": "message", "role": "assistant", "content": content}], **fields}


class Agent:
    """Plays one row and keeps cookies as NeMo Gym's agent does: those of the last answer, and no others."""

    def __init__(self, http: httpx.AsyncClient, row: dict[str, Any]) -> None:
        self.http, self.row, self.cookies = http, row, dict[str, str]()

    async def post(self, path: str, **content: Any) -> httpx.Response:
        header = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        response = await self.http.post(path, headers={"cookie": header} if header else {}, **content)
        self.cookies = dict(response.cookies)
        self.http.cookies.clear()
        return response

    async def seed(self) -> httpx.Response:
        return await self.post("/seed_session", json=self.row)

    async def call(self, name: str, **arguments: Any) -> str:
        return (await self.post(f"/{name}", json=arguments)).text

    async def verify(self, response: dict[str, Any]) -> httpx.Response:
        return await self.post("/verify", json={**self.row, "response": response})


@pytest.fixture
def play_small(tmp_path: Path) -> Callable[..., None]:
    """Run ``body(new_agent, served)`` against a resources server over the small bundle."""

    def run(body: Callable[[Callable[[], Agent], Any], Awaitable[None]], *options: str) -> None:
        async def main() -> None:
            async with serve_in_process(small_bundle(tmp_path / "small")) as served:
                rows = await rows_of(served.url, tmp_path / "rows", tool_timeout=10, reset_timeout=10)
                async with resources(served.url, *options) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
                    await body(lambda: Agent(http, json.loads(json.dumps(rows[0]))), served)
                await served.quiet()

        asyncio.run(main())

    return run


def test_gridsim_is_played_to_its_best(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("gridsim_policies", GRIDSIM / "policies.py")
    assert spec is not None
    assert spec.loader is not None
    policies = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(policies)

    async def one(http: httpx.AsyncClient, row: dict[str, Any]) -> tuple[float, dict[str, float]]:
        agent = Agent(http, row)
        assert (await agent.seed()).status_code == 200
        params = row["responses_create_params"]
        messages, tools = list(params["input"]), params["tools"]
        while calls := (reply := policies.optimal(messages, tools)).get("tool_calls"):
            messages.append(reply)
            for call in calls:
                text = await agent.call(call["function"]["name"], **json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call.get("id"), "content": text})
                if call["function"]["name"] == "end_turn":
                    calls = None
            if calls is None:
                break
        answer = (await agent.verify(said(str(reply.get("content") or "")))).json()
        assert answer["agent_ref"] == row["agent_ref"]
        return answer["reward"], answer["agentenv_result"]["scores"]

    async def main() -> None:
        async with running_server(build_app(GRIDSIM)) as url:
            rows = (await rows_of(url, tmp_path))[:4]
            async with resources(url) as here, httpx.AsyncClient(base_url=here, timeout=60) as http:
                played = await asyncio.gather(*(one(http, row) for row in rows))
        for reward, scores in played:
            assert reward == pytest.approx(1.0)
            assert scores

    asyncio.run(main())


def test_an_episode_is_scored_by_its_last_words_or_its_end_turn(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        right, wrong, ended = new(), new(), new()
        for agent in (right, wrong, ended):
            assert (await agent.seed()).json() == {}
        assert len({*right.cookies.values(), *wrong.cookies.values(), *ended.cookies.values()}) == 3
        assert WORD in await right.call("look")
        answer = (await right.verify(said(f"It is {WORD}."))).json()
        assert (answer["reward"], answer["agentenv_result"]["failure"]) == (1.0, None)
        assert answer["agentenv_result"]["scores"] == {"word": 1.0}
        assert answer["response"] == said(f"It is {WORD}.")
        assert (await right.verify(said("something else"))).json()["reward"] == 1.0  # asked again, answered again
        assert (await wrong.verify(said("no idea"))).json()["reward"] == 0.0
        assert "over" in await ended.call("end_turn", response=WORD)
        assert await ended.call("look") == OVER
        assert (await ended.verify(said(""))).json()["reward"] == 1.0

    play_small(body)


def test_mistakes_of_the_model_are_told_to_it(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        agent = new()
        await agent.seed()
        assert "no tool named 'jump'" in await agent.call("jump")
        assert "no tool named 'a/b c'" in await agent.call("a/b%20c")
        for content in (b"[1]", b'{"a": NaN}', b"{", b"\xff", b'"\\ud800"', b"null"):
            response = await agent.post("/look", content=content)
            assert response.status_code == 200
            assert "The call was not run" in response.text
        assert WORD in (await agent.post("/look")).text
        broken = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{"}
        cut = said(WORD, incomplete_details={"reason": "max_output_tokens"})
        cut["output"].insert(0, broken)
        answer = (await agent.verify(cut)).json()
        assert answer["reward"] == 1.0
        about = answer["agentenv_result"]
        assert (about["tool_calls"], about["invalid_calls"], about["unknown_calls"]) == (1, 6, 2)
        assert (about["truncated"], about["end_reason"]) == (True, "length")

    play_small(body)


def test_a_failed_episode_is_masked(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        agent = new()
        await agent.seed()
        assert await agent.call("die") == OVER
        assert await agent.call("look") == OVER
        agent.row["instance_config"] = {"kept": 1}
        answer = (await agent.verify(said(WORD))).json()
        assert answer["instance_config"] == {"kept": 1, "mask_sample": True}
        assert answer["agentenv_result"]["failure"]["kind"] == "env"
        lost = new()
        lost.cookies = {"agentenv_session": "of-another-process"}
        assert await lost.call("look") == OVER
        answer = (await lost.verify(said(WORD))).json()
        assert answer["instance_config"] == {"mask_sample": True}
        assert answer["agentenv_result"]["failure"]["retryable"]

    play_small(body)


def test_a_failed_episode_is_raised(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        agent = new()
        await agent.seed()
        await agent.call("die")
        for _ in range(2):
            response = await agent.verify(said(WORD))
            assert (response.status_code, response.json()["failure"]["kind"]) == (503, "env")
            assert "reward" not in response.json()
        assert (await new().verify(said(WORD))).status_code == 503

    play_small(body, "--on-infra-failure", "raise")


def test_an_outage_does_not_pass_for_training(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        async def statuses(tool: str, count: int) -> list[int]:
            found: list[int] = []
            for _ in range(count):
                agent = new()
                await agent.seed()
                await agent.call(tool)
                found.append((await agent.verify(said(WORD))).status_code)
            return found

        assert await statuses("die", 2) == [200, 200]
        assert await statuses("look", 1) == [200]
        assert await statuses("die", 4) == [200, 200, 503, 503]
        assert await statuses("look", 1) == [200]
        assert await statuses("die", 1) == [200]

    play_small(body, "--most-failures", "2")


def test_wrong_requests_are_refused(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        wrong: list[tuple[Any, str]] = [
            ([], "no JSON object"),
            ({}, "agentenv rows nemo-gym"),
            ({"agentenv": {"split": 1}}, "the row's 'agentenv' needs 'split'"),
            ({"agentenv": {"split": "train", "index": True}}, "needs 'index' as a whole number"),
            ({"agentenv": {"split": "train", "index": 0, "tool_timeout": 0}}, "needs 'tool_timeout' as seconds"),
            ({"agentenv": {"split": "train", "index": 0, "token_var": "SECRET"}}, "--token-var SECRET"),
        ]
        for row, words in wrong:
            response = await new().post("/seed_session", json=row)
            assert response.status_code == 400
            assert words in response.json()["detail"]
        response = await new().post("/seed_session", content=b"{" * 100_000)
        assert response.status_code == 400
        agent = new()
        agent.row["responses_create_params"]["tools"].pop()
        response = await agent.seed()
        assert response.status_code == 400
        assert "write the rows again" in response.json()["detail"]
        for split, index in (("no-such-split", 0), ("train", 99)):
            agent = new()
            agent.row["agentenv"] |= {"split": split, "index": index}
            assert (await agent.seed()).status_code == 503  # never masked: it would be masked for ever
        agent = new()
        await agent.seed()
        response = await agent.post("/verify", json=agent.row)
        assert response.status_code == 400
        assert (await agent.verify(said(WORD))).json()["reward"] == 1.0

    play_small(body)


def test_an_abandoned_episode_is_given_back(play_small: Callable[..., None]) -> None:
    async def body(new: Callable[[], Agent], served: Any) -> None:
        agent = new()
        await agent.seed()
        await served.quiet()
        async with asyncio.timeout(20):
            while (await agent.http.get("/health")).json()["sessions"]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        answer = (await agent.verify(said(WORD))).json()
        assert answer["instance_config"] == {"mask_sample": True}

    play_small(body, "--idle-timeout", "0.5")


@pytest.mark.parametrize("tool", ["end_turn", "die"])
def test_an_episode_that_is_over_makes_room_before_it_is_verified(tool: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small"), max_concurrent_envs=1) as served:
            rows = await rows_of(served.url, tmp_path / "rows", tool_timeout=5, reset_timeout=20)
            async with resources(served.url) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
                first, second = Agent(http, rows[0]), Agent(http, rows[0])
                await first.seed()
                await first.call(tool, response=WORD)
                await second.seed()
                assert (await second.verify(said(WORD))).json()["reward"] == 1.0
                assert ("instance_config" in (await first.verify(said(""))).json()) == (tool == "die")

    asyncio.run(main())


def test_a_bundle_server_that_ends_is_no_reward(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            rows = await rows_of(served.url, tmp_path / "rows", tool_timeout=2, reset_timeout=1)
        async with resources(served.url) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
            agent = Agent(http, rows[0])
            assert (await agent.seed()).status_code == 200
            assert await agent.call("look") == OVER
            answer = (await agent.verify(said(WORD))).json()
        assert answer["instance_config"] == {"mask_sample": True}
        assert answer["agentenv_result"]["failure"]["kind"] == "server"

    asyncio.run(main())


def test_a_token_is_used_and_told_to_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small"), token="open-sesame") as served:
            os.environ["GYM_TOKEN"] = "open-sesame"
            try:
                rows = await rows_of(served.url, tmp_path / "rows", token_var="GYM_TOKEN")
            finally:
                del os.environ["GYM_TOKEN"]
            for token, status in (("open-sesame", 200), ("wrong-word", 503)):
                async with (
                    resources(served.url, "--token-var", "GYM_TOKEN", GYM_TOKEN=token) as url,
                    httpx.AsyncClient(base_url=url, timeout=30) as http,
                ):
                    agent = Agent(http, rows[0])
                    response = await agent.seed()
                    assert (response.status_code, token in response.text) == (status, False)
                    if status == 200:
                        assert (await agent.verify(said(WORD))).json()["reward"] == 1.0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("http://user:secret@x",), "password"),
        (("http://127.0.0.1:1", "--token-var", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE"),
        (("http://127.0.0.1:1", "--idle-timeout", "nan"), "idle_timeout"),
        (("http://127.0.0.1:1", "--most-failures", "0"), "most_failures"),
        (("http://127.0.0.1:1", "--port", "70000"), "cannot listen"),
        (("http://127.0.0.1:1", "--on-infra-failure", "drop"), "invalid choice"),
    ],
)
def test_wrong_settings_are_one_line(arguments: tuple[str, ...], words: str) -> None:
    async def main() -> None:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent_env.training.nemo_gym", *arguments), stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(30):
            _, errors = await child.communicate()
        assert child.returncode == 2
        assert words in errors.decode()
        assert b"Traceback" not in errors
        assert b"secret" not in errors

    asyncio.run(main())
