"""The page of step types says what the models say, and its examples are valid."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from agent_env.bundle.step_types import StepTypes
from agent_env.bundle.steps import BUILTIN
from agent_env.bundle.steps.criteria import RESPONSE_CRITERIA, SANDBOX_CRITERIA
from agent_env.bundle.validation import validate
from agent_env.plugin.step import StepModel

DOCS = Path(__file__).resolve().parents[1] / "docs"


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_steps", DOCS / "make_steps.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sections() -> dict[str, str]:
    text = (DOCS / "steps.md").read_text(encoding="utf-8")
    return {part.partition("`")[0]: part for part in re.split(r"(?m)^## `", text)[1:]}


def test_the_page_is_what_the_models_say() -> None:
    assert (DOCS / "steps.md").read_text(encoding="utf-8") == maker().page(), "run python docs/make_steps.py"


def test_every_played_step_type_has_a_section() -> None:
    assert list(sections()) == list(BUILTIN)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_field_is_there_and_the_example_is_valid(name: str) -> None:
    section = sections()[name]
    model = StepTypes(None).find(name)
    assert not isinstance(model, str)
    for field in model.model_fields.keys() - StepModel.model_fields.keys():
        assert f"`{field}`" in section, field
    found = re.search(r"```json\n(.*?)\n```", section, re.DOTALL)
    assert found is not None
    step, wrong = validate(model, json.loads(found[1]))
    assert step is not None, [problem.message for problem in wrong]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("verify_sandbox", SANDBOX_CRITERIA), ("agent_prompt_response_verifier", RESPONSE_CRITERIA)],
)
def test_every_criterion_is_there(name: str, kinds: frozenset[str]) -> None:
    assert set(re.findall(r"\*\*Criterion `(\w+)`", sections()[name])) == kinds
