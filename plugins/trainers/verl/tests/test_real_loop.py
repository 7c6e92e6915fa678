"""verl's own workers, data set, configuration and token builder play a served bundle; only the model is a stub."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.testing.trainer_checks import SETTINGS
from agent_env.training.verl.adapter import VerlAdapter

pytestmark = pytest.mark.timeout(280)
POLICIES = Path(__file__).with_name("policies.py")

RUNS: dict[str, dict[str, Any]] = {
    "v0": {"policy": "find", "worker": "v0"},
    "v1": {"policy": "find"},
    "our parser": {"policy": "broken", "rows": "hermes"},
    "verl's parser": {"policy": "broken"},
    "wrong answer": {"policy": "guess"},
    "killed": {"policy": "kill"},
    "killed v0": {"policy": "kill", "worker": "v0"},
    "dropped v0": {"policy": "kill", "worker": "v0", "loop": {"on_infra_failure": "drop"}},
    "dropped": {"policy": "kill", "loop": {"on_infra_failure": "drop"}},
    "survivors": {"policy": "every_other", "loop": {"on_infra_failure": "drop"}},
    "masked": {"policy": "find", "worker": "v0", "loop": {"on_infra_failure": "mask"}},
    "no engine": {"policy": None},
    "aborted": {"policy": "abort", "loop": {"on_infra_failure": "drop"}},
    "cut": {"policy": "ramble", "overrides": ["data.max_response_length=50"]},
    "no room for the answer": {"policy": "loud", "overrides": ["data.max_response_length=130"]},
    "long prompt": {"policy": "find", "worker": "v0", "overrides": ["data.max_prompt_length=50"]},
    "one turn": {"policy": "find", "overrides": ["actor_rollout_ref.rollout.multi_turn.max_assistant_turns=1"]},
    "no log-probabilities": {"policy": "find", "overrides": ["actor_rollout_ref.rollout.calculate_log_probs=false"]},
}


@pytest.fixture(scope="module")
def made(play_real: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What verl made of each run; when they have ended, no env lives."""

    async def main() -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("verl")
        async with serve_in_process(small_bundle(folder / "small")) as served:
            rows = {}
            for name, parser in (("verl", None), ("hermes", "hermes")):
                files = await VerlAdapter().write_rows(served.url, folder / name, replace(SETTINGS, parser=parser))
                rows[name] = str(next(file for file in files if file.stem == "train"))
            answers: list[dict[str, Any]] = await play_real(
                [
                    {
                        "worker": "v1",
                        "samples": 2,
                        **run,
                        "rows": rows[run.get("rows", "verl")],
                        "policy": run["policy"] and f"{POLICIES}:{run['policy']}",
                    }
                    for run in RUNS.values()
                ]
            )
            await served.quiet()
            return answers

    return dict(zip(RUNS, asyncio.run(main()), strict=True))


@pytest.mark.parametrize("worker", ["v0", "v1"])
def test_what_was_sampled_is_what_is_trained(made: dict[str, dict[str, Any]], worker: str) -> None:
    episodes = _requests(made[worker])
    samples = made[worker]["samples"]
    assert (len(samples), len(episodes)) == (4, 4)
    assert len({str(sample["prompt"]) for sample in samples}) == 2, "two tasks, twice each"
    for sample in samples:
        first, second = next(one for one in episodes if one[0]["prompt"] == sample["prompt"])
        assert _trained(sample) == [*first["reply"], *second["reply"]]
        # The engine was asked on exactly the tokens that are trained: nothing was tokenised again.
        assert second["prompt"] == [*sample["prompt"], *sample["response"][: -len(second["reply"])]]
        context = len(sample["response"]) - len(first["reply"]) - len(second["reply"])
        assert context > 0
        assert sample["mask"] == [1] * len(first["reply"]) + [0] * context + [1] * len(second["reply"])
        assert sample["logprobs"] == [-0.5 if kept else 0.0 for kept in sample["mask"]]
        assert sample["reward"] == 1.0
        assert sample["rewarded"] == [len(sample["response"]) - 1], "verl gives the reward to the last token"
        assert sample["turns"] == 4
        assert sample["agentenv"]["scores"] == {"word": 1.0}
        assert sample["info"]["agentenv_tool_calls"] == 1.0
    text = (
        'I look.<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\non the wall stands the word xyzzy<|im_end|>\n"
        "<|im_start|>assistant\nthe word is xyzzy<|im_end|>"
    )
    assert set(made[worker]["texts"]) == {text}


def test_the_engine_hears_one_request_id_for_an_episode_and_the_room_that_is_left(
    made: dict[str, dict[str, Any]],
) -> None:
    for first, second in _requests(made["v1"]):
        assert first["id"] == second["id"]
        assert first["sampling"]["max_tokens"] == 16384
        assert second["sampling"]["max_tokens"] == 16384 - (len(second["prompt"]) - len(first["prompt"]))
    assert made["v1"]["status"] == {"row0": "finished", "row1": "finished"}
    assert all(low == 7 and high > 7 for low, high in (sample["steps"] for sample in made["v1"]["samples"]))


def test_without_log_probabilities_there_are_none(made: dict[str, dict[str, Any]]) -> None:
    assert [sample["logprobs"] for sample in made["no log-probabilities"]["samples"]] == [None] * 4


def test_our_parser_answers_broken_calls(made: dict[str, dict[str, Any]]) -> None:
    samples = made["our parser"]["samples"]
    assert len(samples) == 4
    for sample, text in zip(samples, made["our parser"]["texts"], strict=True):
        info = sample["info"]
        counts = (info["agentenv_tool_calls"], info["agentenv_invalid_calls"], info["agentenv_unknown_calls"])
        assert counts == (1.0, 1.0, 1.0)
        assert (sample["reward"], info["agentenv_turns"]) == (1.0, 3.0)
        assert "could not be read" in text
        assert "There is no tool named 'fly'" in text
        assert text.count("<|im_start|>tool") == 3


def test_with_verls_parser_a_broken_call_ends_the_turn(made: dict[str, dict[str, Any]]) -> None:
    samples = made["verl's parser"]["samples"]
    assert [sample["reward"] for sample in samples] == [0.0] * 4
    assert {sample["agentenv"]["end_reason"] for sample in samples} == {"no_call"}


def test_a_wrong_answer_is_a_reward_of_0(made: dict[str, dict[str, Any]]) -> None:
    assert [sample["reward"] for sample in made["wrong answer"]["samples"]] == [0.0] * 4


def test_a_failed_episode_is_raised(made: dict[str, dict[str, Any]]) -> None:
    for run in ("killed", "no engine"):
        assert made[run]["samples"] == []
        assert made[run]["status"] == {"row0": "failure", "row1": "failure"}
    for run in ("killed v0", "dropped v0"):
        name, message = made[run]["error"]
        assert name == "EpisodeFailed"
        assert message.startswith("env: ")


def test_a_failed_episode_is_dropped(made: dict[str, dict[str, Any]]) -> None:
    for run in ("dropped", "aborted"):
        assert made[run]["samples"] == [], "a dropped episode is no sample, with whatever reward"
        assert made[run]["status"] == {"row0": "finished", "row1": "finished"}
    survivors = made["survivors"]["samples"]
    assert [sample["reward"] for sample in survivors] == [1.0, 1.0]


def test_a_mask_is_refused(made: dict[str, dict[str, Any]]) -> None:
    assert "does not work with verl" in str(made["masked"]["error"])


def test_a_reply_that_fills_its_room_is_scored_as_cut(made: dict[str, dict[str, Any]]) -> None:
    for sample in made["cut"]["samples"]:
        assert sample["mask"] == [1] * 50
        assert (sample["reward"], sample["info"]["agentenv_truncated"]) == (1.0, 1.0)
        assert sample["agentenv"]["end_reason"] == "length"


def test_answers_that_leave_no_room_are_not_trained_on(made: dict[str, dict[str, Any]]) -> None:
    samples = made["no room for the answer"]["samples"]
    assert len(samples) == 4
    for sample in samples:
        assert set(sample["mask"]) == {1}
        assert len(sample["mask"]) < 130
        assert (sample["reward"], sample["agentenv"]["end_reason"]) == (0.0, "context")


def test_a_prompt_that_does_not_fit_is_named(made: dict[str, dict[str, Any]]) -> None:
    name, message = made["long prompt"]["error"]
    assert name == "UsageError"
    assert "max_prompt_length (50)" in message
    assert made["long prompt"]["requests"] == []


def test_verls_own_bound_of_turns_holds(made: dict[str, dict[str, Any]]) -> None:
    for sample in made["one turn"]["samples"]:
        assert (sample["info"]["agentenv_turns"], sample["agentenv"]["end_reason"]) == (1.0, "max_turns")


def _trained(sample: dict[str, Any]) -> list[int]:
    return [token for token, kept in zip(sample["response"], sample["mask"], strict=True) if kept]


def _requests(run: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The engine's requests by episode."""
    episodes: dict[str, list[dict[str, Any]]] = {}
    for request in run["requests"]:
        episodes.setdefault(request["id"], []).append(request)
    return list(episodes.values())
