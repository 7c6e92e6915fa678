"""Step types of plugins, found through a registry."""

from __future__ import annotations

import types
from typing import Any, ClassVar

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.step_types import StepTypes
from agent_env.errors import BundleError
from agent_env.plugin import StepInfo, hookimpl
from agent_env.plugin.step import StepModel
from agent_env.registry import Registry


class PlayChess(StepModel):
    prompts: ClassVar[bool] = True
    scores: ClassVar[bool] = True
    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"board"})

    opening: str
    board: str = "wood"


def registry(model: str) -> Registry:
    hooks = types.ModuleType("chess_hooks")

    @hookimpl
    def agentenv_steps() -> list[StepInfo]:
        return [StepInfo(name="play_chess", summary="Plays chess", model=model, run="chess:run")]

    hooks.agentenv_steps = agentenv_steps  # type: ignore[attr-defined]
    return Registry({"chess-plugin:chess": hooks}, entry_points=False)


@pytest.fixture
def chess(monkeypatch: pytest.MonkeyPatch) -> Registry:
    module = types.ModuleType("chess_models_of_a_test")
    module.PlayChess = PlayChess  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "chess_models_of_a_test", module)
    return registry("chess_models_of_a_test:PlayChess")


def test_a_step_of_a_plugin_is_read(write: Any, chess: Registry) -> None:
    task = [{"id": "game", "type": "play_chess", "opening": "Sicilian", "board": "glass"}]

    bundle = load_bundle(write({"tasks/play.json": task}), chess)

    assert isinstance(bundle.task("all", 0).steps[0], PlayChess)
    assert bundle.templates["play"].scoring_steps == ("game",)
    assert bundle.entry("all", 0).prompt == ""
    assert ["'board'" in note.message for note in bundle.notes] == [True, False]
    assert "makes its prompt when it runs" in bundle.notes[1].message


def test_its_fields_are_checked_and_its_name_is_near(write: Any, chess: Registry) -> None:
    task = [{"id": "game", "type": "play_chess", "openin": 3}, {"id": "again", "type": "play_ches"}]

    with pytest.raises(BundleError) as caught:
        load_bundle(write({"tasks/play.json": task}), chess)

    text = str(caught.value)
    assert "did you mean 'opening'?" in text
    assert "field 'opening': this field is missing" in text
    assert "unknown step type 'play_ches'; did you mean 'play_chess'?" in text


@pytest.mark.parametrize(
    ("model", "words"),
    [("no_such_module:X", "cannot be used"), ("chess_models_of_a_test:number", "no StepModel subclass")],
)
def test_a_plugin_that_does_not_load_leaves_out_its_tasks_only(
    write: Any, steps: Any, chess: Registry, model: str, words: str
) -> None:
    task = [{"id": "game", "type": "play_chess", "opening": "x"}]

    bundle = load_bundle(write({"tasks/game.json": task}), registry(model))

    assert list(bundle.templates) == ["play"]
    assert words in bundle.left_out[0].message


def test_a_plugin_may_bring_a_type_of_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = types.ModuleType("hooks")
    module = types.ModuleType("models_of_a_test")
    module.PlayChess = PlayChess  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "models_of_a_test", module)

    @hookimpl
    def agentenv_steps() -> list[StepInfo]:
        return [StepInfo(name="review", summary="x", model="models_of_a_test:PlayChess", run="x:run")]

    hooks.agentenv_steps = agentenv_steps  # type: ignore[attr-defined]

    assert StepTypes(Registry({"p:p": hooks}, entry_points=False)).find("review") is PlayChess
