"""``--reward``: a scoring step, a combiner's spec or a Python function; what cannot work is said before serving."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.cli.server_options import read_reward
from agent_env.errors import UsageError
from agent_env.testing.small import ask, contains, write_bundle

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]
AddPlugin = Callable[[str, str, str, str], None]

SAME_NAME = """
    from agent_env.plugin import RewardInfo, hookimpl

    @hookimpl
    def agentenv_rewards():
        return [RewardInfo("grade", "As a step", "json:loads")]
"""


@pytest.mark.parametrize(
    "spec",
    [
        "grade",
        "step:grade",
        "combiner:mean:a,b",
        "weighted:a=0.7,b=0.3",
        "gate:a>=0.5,then=b:c,else=0",
        "step:tests.unit:grade",
        "clip:0.5*grade,min=0",
        "weighted:a.b=1,c=2",
        "mean:grade",
    ],
)
def test_a_spec_stays_a_spec(spec: str) -> None:
    assert read_reward(spec) == spec
    assert read_reward(None) is None


def test_functions_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def half(scores):\n    return scores['grade'] / 2\n\nVALUE = 3\n")
    assert read_reward(f"{tmp_path}/mine.py:half")({"grade": 1.0}) == 0.5
    assert read_reward("os.path:basename")("a/b") == "b"
    for spec, words in [
        (f"{tmp_path}/mine.py:whole", "has no function 'whole'; it has: half"),
        (f"{tmp_path}/mine.py:VALUE", "has no function 'VALUE'"),
        (f"{tmp_path}/none.py:half", "no such file"),
        ("no_such.module:half", "cannot import 'no_such.module'"),
    ]:
        with pytest.raises(UsageError, match=words):
            read_reward(spec)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Three tasks: grade; grade and format; other and style."""
    tasks: dict[str, list[dict[str, Any]]] = {
        "one": [*ask("What?"), contains("grade", "x")],
        "two": [*ask("What?"), contains("grade", "x"), contains("format", "y")],
        "three": [*ask("What?"), contains("other", "x"), contains("style", "y")],
    }
    return write_bundle(tmp_path / "bundle", tasks)


def test_what_cannot_work_ends_serve_with_every_problem(agentenv: Run, bundle: Path, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "1.0", "acme", SAME_NAME)

    def refused(reward: str) -> str:
        done = agentenv("serve", str(bundle), "--port", "0", "--reward", reward)
        assert done.returncode in {1, 2}, done.stderr
        assert "Traceback" not in done.stderr
        assert "Uvicorn" not in done.stderr
        return done.stderr

    assert "write 'step:grade' or 'combiner:grade'" in refused("grade")
    said = refused("weighted:grade=1,formt=1")
    for task in ("one", "two", "three"):
        assert f"tasks/{task}.json" in said
    assert "did you mean 'format'?" in said
    assert "no scoring step is called 'grade'; the task's scoring steps: 'other', 'style'" in said
    assert "the weights sum to 0" in refused("weighted:grade=0")
    assert "scoring steps: format, grade, other, style" in refused("step:grad")
    assert "unknown reward 'wieghted'" in refused("wieghted:grade=1")
    assert "Did you mean 'weighted'?" in refused("wieghted:grade=1")


def test_tasks_that_a_reward_does_not_fit_are_named_and_the_rest_served(bundle: Path) -> None:
    from agent_env.openenv import build_app

    app = build_app(bundle, reward="weighted:grade=0.7,format=0.3")
    served = app.state.engine.bundle
    assert list(served.templates) == ["two"]
    assert sorted({str(problem.task) for problem in served.left_out}) == ["one", "three"]
    assert json.dumps(str(served.left_out[0]))
