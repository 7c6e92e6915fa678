from __future__ import annotations

import pytest
from agent_env.errors import EpisodeFailed, Failure, UsageError
from agent_env.rollout.result import Result
from agent_env.training.verl import AGENT_NAME, CONFIG
from agent_env.training.verl.failures import check_on_failure, is_scored
from agent_env.training.verl.schemas import schema_fields
from agent_env.training.verl.text import split_reasoning, without_end


def test_a_failure_is_raised_or_dropped_and_never_a_sample() -> None:
    failed = Result(reward=0.5)
    failed.fail(Failure("env", "gone"))
    with pytest.raises(EpisodeFailed, match="env: gone"):
        is_scored(failed, 5, "x", "raise")
    assert not is_scored(failed, 5, "x", "drop")
    assert not is_scored(Result(reward=1.0), 0, "nothing was written", "drop")
    assert not is_scored(Result(reward=None), 5, "no reward", "drop")
    assert is_scored(Result(reward=0.0), 5, "a zero of the model's own", "drop")


def test_the_switch_knows_what_verl_can_carry() -> None:
    assert [check_on_failure(word) for word in ("raise", "drop")] == ["raise", "drop"]
    for word in ("mask", "zero", None):
        with pytest.raises(UsageError, match="raise"):
            check_on_failure(word)


def test_the_configuration_names_the_loop() -> None:
    text = CONFIG.read_text()
    assert f"name: {AGENT_NAME}\n" in text
    assert "_target_: agent_env.training.verl.loop.BundleAgentLoop\n" in text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("hi<|im_end|>", "hi"),
        ("hi<|im_end|>\n<|endoftext|>", "hi"),
        ("hi<end>", "hi"),
        ("hi <b> there ", "hi <b> there "),
        ("<|im_end|> inside", "<|im_end|> inside"),
    ],
)
def test_the_end_of_a_turn_is_no_text(text: str, rest: str) -> None:
    assert without_end(text, ["<end>"]) == rest


def test_reasoning_is_told_from_the_reply() -> None:
    assert split_reasoning("<think>\na\n</think>\n\nb") == ("a", "b")
    assert split_reasoning("a</think>b") == ("a", "b")
    assert split_reasoning("b") == ("", "b")


def test_schemas_lose_only_what_parsers_do_not_read() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "c": {"$ref": "#/$defs/c"},
            "d": {"type": ["integer", "null"]},
            "e": {"const": 4},
        },
        "required": ["a"],
    }
    made = schema_fields({"type": "function", "function": {"name": "f", "parameters": parameters}})
    assert {name: field["type"] for name, field in made["function"]["parameters"]["properties"].items()} == {
        "a": "integer",
        "b": ["string", "null"],
        "c": "object",
        "d": ["integer", "null"],
        "e": "string",
    }
    assert made["function"]["parameters"]["required"] == ["a"]
