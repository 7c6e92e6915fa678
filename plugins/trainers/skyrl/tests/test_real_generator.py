"""The real SkyRL generator, tokenizer and data set on GridSim; only the engine's model is a Python function."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)
GROUPS = {"0", "1", "2"}


def by_task(run: dict[str, Any]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for uid, reward in zip(run["uids"], run["rewards"], strict=True):
        found.setdefault(run["tasks"][int(uid)], []).append(reward)
    return found


def trained(run: dict[str, Any]) -> dict[str, int]:
    """Tokens that are trained, by group."""
    return {
        uid: sum(count for own, count in zip(run["uids"], run["trained"], strict=True) if own == uid) for uid in GROUPS
    }


@pytest.mark.parametrize("policy", ["greedy", "optimal", "clumsy"])
def test_rewards_are_those_of_the_rehearsals(real: dict[str, Any], policy: str) -> None:
    run = real[policy]
    assert len(run["rewards"]) == 6
    assert by_task(run) == real["miles"][policy] == real["skyrl"][policy]
    assert run["last"] == run["rewards"], "the reward is at the last token, where pass@n reads it"
    assert set(run["stop_reasons"]) == {"stop"}
    assert run["rollout_metrics"]["agentenv/failed_rollouts"] == 0


@pytest.mark.parametrize("run", ["greedy", "clumsy", "native", "crowded", "died", "cut"])
def test_tokens_are_never_made_twice(real: dict[str, Any], run: str) -> None:
    assert real[run]["requests"] > 6
    assert real[run]["drifts"] == 0


def test_what_the_model_wrote_is_trained_and_nothing_else(real: dict[str, Any]) -> None:
    for said in real["greedy"]["said"]:
        assert said.count("<tool_call>\n") == 4
        assert '"read_day"' in said
        assert "<tool_response>" not in said
        assert "prices" not in said


def test_tools_of_the_chat_template(real: dict[str, Any]) -> None:
    assert by_task(real["native"]) == real["miles"]["greedy"]


def test_calls_whose_marks_are_special_tokens(real: dict[str, Any]) -> None:
    run = real["special"]  # the engine leaves the marks out of the text
    assert by_task(run) == real["miles"]["greedy"]
    assert run["drifts"] == 0
    assert all(said.count("<tool_call>") == 4 for said in run["said"])


def test_the_environment_plays_in_skyrls_own_generator(real: dict[str, Any]) -> None:
    assert by_task(real["plain"]) == real["miles"]["greedy"]


def test_step_wise_trajectories(real: dict[str, Any]) -> None:
    run = real["step_wise"]
    last = [reward for reward, flag in zip(run["rewards"], run["is_last_step"], strict=True) if flag]
    assert last == real["greedy"]["rewards"]
    assert sum(run["rewards"]) == pytest.approx(sum(last))


def test_a_dead_env_masks_its_group_and_the_step_goes_on(real: dict[str, Any]) -> None:
    run = real["died"]
    (place,) = [place for place, reason in enumerate(run["stop_reasons"]) if reason == "error"]
    hit = run["uids"][place]
    counts = trained(run)
    assert counts[hit] == 0
    assert all(counts[uid] > 0 for uid in GROUPS - {hit})
    whole = by_task(real["greedy"])
    for task, rewards in by_task(run).items():
        # The failed one is no zero: it has the reward of its sibling, so that no mean and no baseline moves.
        assert rewards == pytest.approx(whole[task], abs=1e-6)
        assert len(set(rewards)) == 1
    assert run["avg_score"] == pytest.approx(real["greedy"]["avg_score"], abs=1e-6)
    metrics = run["rollout_metrics"]
    assert (
        metrics["agentenv/failed_rollouts"] == metrics["agentenv/masked_groups"] == metrics["agentenv/failed/env"] == 1
    )
    assert metrics["environment/failed"] == pytest.approx(1 / 6)
    assert metrics["environment/turns"] == 4
    assert metrics["generate/min_num_tokens"] > 100, "the placeholder counts among the responses"


def test_dynamic_sampling_samples_a_masked_group_again(real: dict[str, Any]) -> None:
    run = real["mixed"]
    (place,) = [place for place, reason in enumerate(run["stop_reasons"]) if reason == "error"]
    hit = run["uids"][place]
    assert run["sampled_again"] == [hit]
    rewards = [reward for uid, reward in zip(run["uids"], run["rewards"], strict=True) if uid == hit]
    assert len(set(rewards)) == 1
    assert 0 < rewards[0] < 1, "the mean of the scored ones, which differ"
    own = [value for uid, value in zip(run["uids"], run["advantages"], strict=True) if uid == hit]
    others = [value for uid, value in zip(run["uids"], run["advantages"], strict=True) if uid != hit]
    assert own == [0.0] * 4
    assert max(others) > 0.5 > -0.5 > min(others)


def test_without_the_wrapper_a_dead_env_ends_the_step(real: dict[str, Any]) -> None:
    assert "EpisodeFailed: env: " in real["died_plain"]["error"]


def test_raise_ends_the_step_when_all_have_ended(real: dict[str, Any]) -> None:
    run = real["died_raise"]
    assert run["error"].startswith("EpisodeFailed: env: ")
    assert run["finished"] == 6
    assert run["requests"] == 4 * 5 + 2


def test_a_dead_env_with_step_wise_trajectories(real: dict[str, Any]) -> None:
    run = real["died_step_wise"]
    (place,) = [place for place, reason in enumerate(run["stop_reasons"]) if reason == "error"]
    hit = run["uids"][place]
    assert run["is_last_step"][place]
    assert sum(run["is_last_step"]) == 6
    counts = trained(run)
    assert counts[hit] == 0
    assert all(counts[uid] > 0 for uid in GROUPS - {hit})
    last = [reward for reward, flag in zip(run["rewards"], run["is_last_step"], strict=True) if flag]
    assert last == pytest.approx(real["greedy"]["rewards"], abs=1e-6)


def test_a_batch_without_a_score_is_an_error(real: dict[str, Any]) -> None:
    assert real["all_died"]["error"].startswith(
        "AgentEnvError: all 6 rollouts of the batch failed, the first with: env"
    )


def test_one_group_without_a_score_is_masked(real: dict[str, Any]) -> None:
    run = real["one_group_died"]  # the asynchronous trainer generates group by group
    assert run["trained"] == [0, 0]
    assert run["rollout_metrics"]["agentenv/failed_rollouts"] == 2


def test_an_engine_that_fails_one_request_masks_its_group(real: dict[str, Any]) -> None:
    run = real["engine"]
    assert run["stop_reasons"].count("error") == 1
    assert sorted(trained(run).values())[0] == 0
    assert sorted(trained(run).values())[1] > 0
    assert run["rollout_metrics"]["agentenv/failed/model"] == 1


def test_a_cut_reply_is_the_models_own_end(real: dict[str, Any]) -> None:
    run = real["cut"]
    place = run["stop_reasons"].index("length")
    assert run["rewards"][place] == 0.0
    assert run["trained"][place] > 0
    assert run["rollout_metrics"]["environment/truncated"] == pytest.approx(1 / 6)
    assert run["rollout_metrics"]["agentenv/failed_rollouts"] == 0


@pytest.mark.parametrize("name", ["context", "context_step_wise"])
def test_a_full_context_is_scored_as_it_stands(real: dict[str, Any], name: str) -> None:
    run = real[name]
    assert run["requests"] == 6, "the fourth reply was asked for"
    reward = real["greedy"]["rewards"][0]
    totals = [value for value in run["rewards"] if value]
    assert totals == [reward, reward]
    assert run["rollout_metrics"]["agentenv/failed_rollouts"] == 0


def test_a_prompt_without_room_is_said(real: dict[str, Any]) -> None:
    assert "the first prompt is longer than generator.max_input_length" in real["no_room"]["error"]


def test_the_trainers_max_turns_count(real: dict[str, Any]) -> None:
    assert real["one_turn"]["requests"] == 6
    assert real["one_turn"]["rollout_metrics"]["environment/turns"] == 1


def test_a_full_server_and_one_worker_thread_do_not_block_each_other(real: dict[str, Any]) -> None:
    run = real["crowded"]
    assert {task: set(rewards) for task, rewards in by_task(run).items()} == {
        task: set(rewards) for task, rewards in real["miles"]["greedy"].items()
    }
    assert len(run["rewards"]) == 12


def test_nothing_is_left_open(real: dict[str, Any]) -> None:
    runs = {name: run for name, run in real.items() if name not in {"miles", "skyrl", "died_plain"}}
    assert {name: run["left"] for name, run in runs.items()} == dict.fromkeys(runs, 0)
