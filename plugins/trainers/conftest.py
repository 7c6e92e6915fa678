"""What the tests of all trainer plugins share: the Python that has the real trainer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def real_python() -> Callable[[str], Path]:
    """The Python that has a real trainer, by the name of its plugin's folder.

    ``AGENTENV_VENV_<NAME>`` names it, or ``.venvs/<name>`` holds it; without either the test is skipped.
    """

    def find(name: str) -> Path:
        variable = f"AGENTENV_VENV_{name.upper()}"
        named = os.environ.get(variable)
        python = Path(named) if named else ROOT / ".venvs" / name / "bin" / "python"
        if not python.is_file():
            if named:
                pytest.fail(f"{variable} names {named}, which is no file")
            pytest.skip(f"the real {name} is not here: `.ci/trainers {name}` builds .venvs/{name}")
        return python

    return find


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # `.ci/run` plays the real trainers after all other tests, as far as its time goes.
    if os.environ.get("AGENTENV_TRAINERS_APART") != "true":
        return
    for item in items:
        wanted: tuple[str, ...] = getattr(item, "fixturenames", ())
        if item.path.is_relative_to(HERE) and "real_python" in wanted:
            item.add_marker(pytest.mark.skip(reason=".ci/trainers plays these"))
