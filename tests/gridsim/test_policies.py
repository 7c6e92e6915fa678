"""The policies on the whole eval split, played on the env's object."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def scores(play_policy: Any, policies: Any, eval_rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    names = ("idle", "greedy", "optimal", "clumsy")
    return {name: [play_policy(getattr(policies, name), row).graded["score"] for row in eval_rows] for name in names}


def test_idling_scores_exactly_a_fifth_every_day(scores: dict[str, list[float]]) -> None:
    assert set(scores["idle"]) == {0.2}


def test_the_optimum_scores_exactly_one_every_day(scores: dict[str, list[float]]) -> None:
    assert set(scores["optimal"]) == {1.0}


def test_greedy_lies_well_between(scores: dict[str, list[float]]) -> None:
    mean = sum(scores["greedy"]) / len(scores["greedy"])
    assert 0.6 <= mean <= 0.9
    assert len(set(scores["greedy"])) > 100


def test_clumsy_play_scores_less_than_idling_but_not_always_zero(scores: dict[str, list[float]]) -> None:
    assert max(scores["clumsy"]) <= 0.2
    assert len(set(scores["clumsy"])) > 10
    assert scores["clumsy"].count(0.0) > 50


def test_the_readme_tells_these_means(scores: dict[str, list[float]], bundle_path: Any) -> None:
    readme = (bundle_path / "README.md").read_text(encoding="utf-8")
    for name, values in scores.items():
        line = next(line for line in readme.splitlines() if line.startswith(f"| `{name}` |"))
        assert line.split("|")[3].strip() == f"{sum(values) / len(values):.3f}"


def test_greedy_is_told_before_it_submits(play_policy: Any, policies: Any, eval_rows: list[dict[str, Any]]) -> None:
    played = play_policy(policies.greedy, eval_rows[0])
    assert played.turns == 4
    assert '"feasible": true' in played.answers["check_schedule"][0]
    assert played.graded["checks_used"] == 1


def test_clumsy_makes_every_mistake(play_policy: Any, policies: Any, eval_rows: list[dict[str, Any]]) -> None:
    answers = [play_policy(policies.clumsy, row).answers for row in eval_rows[:20]]
    checks = "\n".join(text for told in answers for text in told["check_schedule"])
    for part in ("not JSON", "not an object", "this one has 2", '"feasible": false', "hour 17 sells 99 units"):
        assert part in checks
    assert all(told["sell_everything"] == ["unknown tool"] for told in answers)
    submits = "\n".join(text for told in answers for text in told.get("submit_schedule", []))
    for part in ('"feasible": true', '"feasible": false', "this one has 2", "the day is over"):
        assert part in submits
    assert any("submit_schedule" not in told for told in answers)


def test_a_policy_says_what_is_missing_when_the_day_cannot_be_read(policies: Any) -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]
    with pytest.raises(LookupError, match="read_day"):
        policies.greedy([*messages, {"role": "tool", "content": "no day is loaded"}], [])


def test_content_parts_are_read_too(policies: Any, eval_rows: list[dict[str, Any]]) -> None:
    import json

    parts = [{"type": "text", "text": json.dumps(eval_rows[0]["day"])}]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"role": "tool", "content": parts}]
    assert policies.optimal(messages, [])["tool_calls"][0]["function"]["name"] == "submit_schedule"
