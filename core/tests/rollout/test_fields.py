"""What adapters read of rows: every value is of its type or refused by its name, and a token is never told."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.rollout.fields import Fields
from agent_env.rollout.row import read_episode_row
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def _seconds(read: object) -> bool:
    return isinstance(read, float) and 0 < read < math.inf


READS: dict[str, tuple[Callable[[Fields, Any], object], Callable[[object], bool]]] = {
    "text": (lambda fields, _: fields.text("field"), lambda read: isinstance(read, str) and read != ""),
    "count": (lambda fields, _: fields.count("field", least=1), lambda read: type(read) is int and read >= 1),
    "seconds": (lambda fields, _: fields.seconds("field", 1.0), _seconds),
    "schemas": (lambda fields, value: fields.schemas("field", value), lambda read: isinstance(read, tuple)),
    "inner": (lambda fields, value: fields.inner("field", value).values, lambda read: isinstance(read, dict)),
}


@pytest.mark.parametrize("kind", READS)
@given(anything)
def test_a_field_is_of_its_type_or_refused_by_name(kind: str, value: Any) -> None:
    read, fits = READS[kind]
    found: object = None
    refused = ""
    try:
        found = read(Fields({"field": value}, owner="the row", mend="write it again"), value)
    except UsageError as error:
        refused = str(error)
    assert fits(found) or (refused.startswith("the row needs 'field' as ") and refused.endswith(": write it again"))


@given(anything)
def test_json_text_is_read_and_anything_else_is_refused(value: Any) -> None:
    fields = Fields({"whole": json.dumps(value), "bare": value})
    assert json.dumps(fields.json("whole")) == json.dumps(value)
    if not isinstance(value, str):
        with pytest.raises(UsageError, match="'bare'"):
            fields.json("bare")


def test_gaps_made_floats_of_integers() -> None:
    assert Fields({"index": 3.0}).count("index") == 3
    assert Fields({}).optional_count("seed") is None
    for value in (3.5, math.nan, math.inf, True, "3", -1.0):
        with pytest.raises(UsageError, match="'index' as a whole number from 0 on"):
            Fields({"index": value}).count("index")
    with pytest.raises(UsageError, match="seconds"):
        Fields({"tool_timeout": 10**400}).seconds("tool_timeout", 60.0)


def test_a_token_is_read_by_its_name_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    own: dict[str, Any] = {"url": "http://host", "split": "train", "index": 0, "token_var": "ROW_TOKEN"}
    fields = Fields(own)
    with pytest.raises(UsageError, match="ROW_TOKEN, which is not set where the rollout runs: set it for the workers"):
        fields.token("the rollout runs", "the workers")
    monkeypatch.setenv("ROW_TOKEN", "s3cret")
    row = read_episode_row(fields, fields, tools=(), token=fields.token("the rollout runs", "the workers"))
    assert row.token == row.target.token == "s3cret"
    assert "s3cret" not in f"{row!r} {row.target!r} {row.settings()!r}"
    for name in ("", 3, ["ROW_TOKEN"]):
        with pytest.raises(UsageError, match="name of an environment variable"):
            Fields({"token_var": name}).token("here", "there")


def test_a_long_value_is_told_in_short() -> None:
    with pytest.raises(UsageError) as error:
        Fields({"url": ["x" * 10_000]}).text("url")
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(("own", "trainers", "turns"), [(8, None, 8), (8, 3, 3), (2, 3, 2)])
def test_the_smaller_bound_of_replies_counts(own: int, trainers: int | None, turns: int) -> None:
    fields = Fields({"url": "http://host", "split": "train", "index": 0, "max_turns": own})
    assert read_episode_row(fields, fields, tools=(), token=None).settings(most_turns=trainers).max_turns == turns
