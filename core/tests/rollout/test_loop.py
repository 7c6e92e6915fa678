"""The chat loop, played over HTTP against the stand-in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import CapacityReached, Failure, SessionLost
from agent_env.plugin.tools import ToolResult
from agent_env.rollout import Settings
from agent_env.testing.standin import Fault, call, calls, say
from agent_env.testing.standin.episodes import FakeEpisodes, FakeReply

if TYPE_CHECKING:
    from collections.abc import Callable


def add(a: int, b: int) -> int:
    return a + b


def script(*replies: Any) -> Callable[..., Any]:
    """A policy that gives its replies one after the other."""
    left = list(replies)

    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return left.pop(0)

    return reply


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_a_whole_episode_is_trained_token_for_token(play: Any, session: str) -> None:
    episodes = FakeEpisodes({"add": add})
    replies = script(
        calls(("add", '{"a":1,"b": 2}'), content="\n\nLet me  add. "),
        calls(("add", {"a": 3, "b": 4}), ("add", {"a": 5, "b": 6})),
        say("It is 7 — déjà vu 🙂", reasoning="thinking"),
    )
    played = asyncio.run(play(episodes, replies, session=session))
    result = played.result
    assert (result.reward, result.failure, result.end_reason) == (1.0, None, "no_call")
    assert played.answers == ["3", "7", "11"]
    assert (result.tool_calls, result.turns, result.truncated) == (3, 3, False)
    assert episodes.sessions[0].responses == ["It is 7 — déjà vu 🙂"]
    assert episodes.open_sessions == 0
    (sample,) = played.samples
    assert sample.trained_tokens == played.session.generated > 0
    assert sample.status == "completed"
    assert result.timings == {"deploy_s": 0.25, "verifier_s": 0.5}


def test_every_request_has_the_same_tools_and_the_sampling_fields(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    request: dict[str, Any] = {
        "temperature": 0.7,
        "top_k": -1,
        "no_stop_trim": True,
        "max_tokens": 512,
        "messages": [],
        "stream": True,
    }
    played = asyncio.run(play(episodes, script(call("look"), say("done")), request=request))
    first, second = played.session.requests
    assert first["tools"] == second["tools"] == episodes.schemas
    for body in (first, second):
        assert {key: body[key] for key in ("temperature", "top_k", "no_stop_trim", "max_tokens")} == {
            "temperature": 0.7,
            "top_k": -1,
            "no_stop_trim": True,
            "max_tokens": 512,
        }
        assert "stream" not in body
    assert len(second["messages"]) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("null", "got null"),
        ("[1]", "got a list"),
        ('"x"', "got a string"),
        ("3", "got a number"),
        ("true", "got a boolean"),
        ('{"a": ', "not valid JSON"),
        ("", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_arguments_that_are_no_object_are_answered_and_counted(play: Any, arguments: str, words: str) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(calls(("look", arguments), ("look", "{}")), say("done"))))
    assert words in played.answers[0]
    assert played.answers[1] == "a wall"
    assert (played.result.invalid_calls, played.result.tool_calls, played.result.reward) == (1, 1, 1.0)
    assert episodes.sessions[0].calls == [("look", {})]
    assert episodes.sessions[0].ends == [{"invalid_calls": 1, "truncated": False}]
    assert played.samples[0].trained_tokens == played.session.generated


def test_unknown_tools_are_answered_and_counted_apart(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(calls(("peek", {}), ("look", {})), say("done"))))
    assert "no tool named 'peek'" in played.answers[0]
    assert "look, end_turn" in played.answers[0]
    assert (played.result.unknown_calls, played.result.tool_calls) == (1, 1)


def test_calls_after_an_end_of_turn_are_not_run(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    reply = calls(("look", {}), ("end_turn", {"response": "42"}), ("look", {}), ("end_turn", {"response": "43"}))
    played = asyncio.run(play(episodes, script(reply)))
    assert episodes.sessions[0].responses == ["42"]
    assert episodes.sessions[0].calls == [("look", {})]
    assert played.answers[2:] == ["The turn is over: this call was not run."] * 2
    assert (played.result.end_reason, played.result.tool_calls) == ("end_turn", 1)


def test_end_turn_brings_the_next_prompt(play: Any) -> None:
    episodes = FakeEpisodes(prompts=["One?", "Two?", "Three?"], reward=lambda responses: len("".join(responses)) / 10)
    first = calls(("end_turn", {"response": "a"}), ("end_turn", {"response": "lost"}))
    played = asyncio.run(play(episodes, script(first, call("end_turn", response="b"), call("end_turn", response="c"))))
    assert episodes.sessions[0].responses == ["a", "b", "c"]
    assert played.answers == ["Two?", "The turn is over: this call was not run.", "Three?", "The episode is over."]
    assert played.result.reward == 0.3


def test_a_reply_without_a_call_ends_the_open_turn_and_later_turns_end_empty(play: Any) -> None:
    episodes = FakeEpisodes(prompts=["One?", "Two?", "Three?"])
    played = asyncio.run(play(episodes, script(call("end_turn", response="a"), say("b"))))
    assert episodes.sessions[0].responses == ["a", "b", ""]
    assert played.result.end_reason == "no_call"


@pytest.mark.parametrize("faults", [None, {1: Fault.context()}])
def test_a_turn_that_nobody_replied_to_ends_empty(play: Any, faults: Any) -> None:
    episodes = FakeEpisodes(prompts=["One?", "Two?", "Three?"])
    settings = Settings(max_turns=1 if faults is None else 3, reset_timeout=5)
    reply = calls(("end_turn", {"response": "a"}), content="first words")
    asyncio.run(play(episodes, script(reply), settings=settings, faults=faults))
    assert episodes.sessions[0].responses == ["a", "", ""]


def test_after_max_turns_the_last_calls_are_played_and_the_episode_is_scored(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    settings = Settings(max_turns=2, reset_timeout=5)
    reply = calls(("look", {}), content="still looking")
    played = asyncio.run(play(episodes, script(reply, reply, reply), settings=settings))
    assert (played.result.turns, played.result.tool_calls, played.result.end_reason) == (2, 2, "max_turns")
    assert episodes.sessions[0].responses == ["still looking"]
    assert (played.result.reward, played.result.truncated) == (1.0, False)


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_length_ends_scored_and_truncated(play: Any, session: str) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    faults = {1: Fault.ends("length")}
    played = asyncio.run(
        play(episodes, script(call("look"), calls(("look", {}), content="abcdef")), faults=faults, session=session)
    )
    assert (played.result.reward, played.result.truncated, played.result.end_reason) == (1.0, True, "length")
    assert (played.result.turns, played.session.chats) == (2, 2)
    assert episodes.sessions[0].ends[-1]["truncated"] is True
    (sample,) = played.samples
    assert sample.status == "truncated"
    assert sample.trained_tokens == played.session.generated


def test_abort_ends_at_once_as_a_failure(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(call("look"), call("look")), faults={1: Fault.ends("abort")}))
    assert played.result.failure is not None
    assert played.result.failure.kind == "aborted"
    assert (played.result.reward, played.session.chats, episodes.open_sessions) == (None, 2, 0)
    assert episodes.sessions[0].responses == []


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_a_full_context_ends_scored_and_truncated(play: Any, session: str) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(
        play(episodes, script(calls(("look", {}), content="hm")), faults={1: Fault.context()}, session=session)
    )
    assert (played.result.reward, played.result.truncated, played.result.end_reason) == (1.0, True, "context")
    assert played.session.chats == 2
    assert episodes.sessions[0].responses == ["hm"]


def test_max_seq_len_is_watched_by_usage(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall " * 200})
    settings = Settings(max_turns=6, reset_timeout=5, max_seq_len=1000)
    played = asyncio.run(play(episodes, script(call("look"), call("look"), call("look")), settings=settings))
    assert (played.result.turns, played.result.truncated, played.result.end_reason) == (2, True, "context")
    assert played.result.tool_calls == 1


@pytest.mark.parametrize("session", ["v1", "v2"])
@pytest.mark.parametrize("fault", [Fault.error(502), Fault.plain_error(500), Fault.error(503), Fault.dropped("before")])
@pytest.mark.parametrize("place", [0, 1])
def test_passing_errors_are_retried_on_the_same_messages(play: Any, session: str, fault: Fault, place: int) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(call("look"), say("done")), faults={place: fault}, session=session))
    assert (played.result.reward, played.result.model_retries, played.session.chats) == (1.0, 1, 3)
    (sample,) = played.samples
    assert sample.trained_tokens == played.session.generated
    assert len(episodes.sessions) == 1


def test_errors_that_stay_are_a_failure_of_the_model(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(), faults=dict.fromkeys(range(9), Fault.error(502)), retries=1))
    assert played.result.failure is not None
    assert played.result.failure.kind == "model"
    assert "502" in played.result.failure.message
    assert (played.session.chats, episodes.open_sessions) == (2, 0)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_refusals_are_not_retried(play: Any, status: int) -> None:
    episodes = FakeEpisodes()
    played = asyncio.run(play(episodes, script(), faults={0: Fault.error(status, "message mismatch")}))
    assert played.result.failure is not None
    assert played.result.failure.kind == "model"
    assert "message mismatch" in played.result.failure.message
    assert played.session.chats == 1


def test_409_ends_the_episode_as_the_models_end(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    played = asyncio.run(play(episodes, script(call("look")), faults={1: Fault.error(409)}))
    assert (played.result.reward, played.result.truncated, played.session.chats) == (1.0, True, 2)


def test_a_slow_reply_is_a_model_timeout(play: Any) -> None:
    episodes = FakeEpisodes()
    settings = Settings(model_timeout=0.2, reset_timeout=5)
    played = asyncio.run(play(episodes, script(say("late")), faults={0: Fault.slow(30)}, settings=settings))
    assert played.result.failure is not None
    assert played.result.failure.kind == "model_timeout"


def test_unparsed_markup_names_the_missing_flag(play: Any) -> None:
    episodes = FakeEpisodes({"look": lambda: "a wall"})
    text = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    played = asyncio.run(play(episodes, script(say(text))))
    assert played.result.unparsed_calls == 1
    assert "--tool-call-parser qwen25" in played.result.warnings[0]
    assert played.result.reward == 1.0


def test_results_that_are_no_text_are_described(play: Any) -> None:
    image = {"type": "image", "data": "A" * 400, "mimeType": "image/png"}
    episodes = FakeEpisodes(
        {
            "draw": lambda: ToolResult([{"type": "text", "text": "Here:"}, image]),
            "count": lambda: ToolResult([], structured={"n": 3}),
            "break": lambda: ToolResult([{"type": "text", "text": "no such door"}], is_error=True),
            "refuse": lambda: FakeReply(error_type="invalid_args", message="door must be an integer"),
        }
    )
    reply = calls(("draw", {}), ("count", {}), ("break", {}), ("refuse", {}))
    played = asyncio.run(play(episodes, script(reply, say("done"))))
    assert played.answers[0] == "Here:\n[image of type image/png, 300 bytes; it cannot be shown here]"
    assert played.answers[1] == '{"n": 3}'
    assert played.answers[2] == "Error: no such door"
    assert played.answers[3] == "Error: door must be an integer"
    assert played.result.reward == 1.0


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        (lambda: FakeReply(failure=Failure("env", "env 'a' died (exit code -9)")), "env"),
        (lambda: FakeReply(failure=Failure("tool_timeout", "tool 'look' took longer than 5 s")), "tool_timeout"),
        (lambda: _raise(SessionLost("the server closed the connection")), "server"),
        (lambda: asyncio.sleep(30), "tool_timeout"),
    ],
)
def test_failures_of_the_env_end_the_episode_unscored(play: Any, tool: Callable[..., Any], kind: str) -> None:
    episodes = FakeEpisodes({"look": tool})
    settings = Settings(tool_timeout=0.3, reset_timeout=5)
    played = asyncio.run(play(episodes, script(call("look"), say("never")), settings=settings))
    assert played.result.failure is not None
    assert (played.result.failure.kind, played.result.reward, played.session.chats) == (kind, None, 1)
    assert (episodes.open_sessions, len(episodes.sessions)) == (0, 1)


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_a_failure(play: Any, reward: float | None) -> None:
    played = asyncio.run(play(FakeEpisodes(reward=reward), script(say("done"))))
    assert played.result.failure is not None
    assert played.result.failure.kind == "no_reward"


def test_failures_of_the_verifier_stay_what_they_are(play: Any) -> None:
    episodes = FakeEpisodes(end=Failure("verifier", "step 'grade': crashed"))
    played = asyncio.run(play(episodes, script(say("done"))))
    assert str(played.result.failure) == "verifier: step 'grade': crashed"


def test_a_last_attempt_without_time_says_what_the_others_died_of(play: Any) -> None:
    late = Failure("deploy", "step 'deploy': numbers: the server is not ready after 60 s", retryable=True)
    episodes = FakeEpisodes(resets=[late, late, *[TimeoutError()] * 20])
    settings = Settings(max_turns=2, reset_timeout=1.5)
    failure = asyncio.run(play(episodes, script(say("done")), settings=settings)).result.failure
    assert failure is not None
    assert failure.kind == "deploy"
    assert failure.message.startswith(late.message + "; attempt ")
    assert failure.message.endswith(" was cut short by reset_timeout")


@pytest.mark.parametrize("slow_last", [False, True])
def test_waiting_in_vain_says_that_the_server_is_full(play: Any, slow_last: bool) -> None:
    full = CapacityReached("Server at capacity: 8/8 sessions active. Cannot accept new connections.")
    episodes = FakeEpisodes(resets=[full, *([TimeoutError()] if slow_last else [full] * 20)] + [TimeoutError()] * 20)
    settings = Settings(max_turns=2, reset_timeout=0.6)
    played = asyncio.run(play(episodes, script(say("done")), settings=settings))
    failure = played.result.failure
    assert failure is not None
    assert failure.kind == "server"
    assert "is full and stayed so until reset_timeout ended: Server at capacity: 8/8" in failure.message
    assert all(session.wait < 0.6 for session in episodes.sessions)
