"""What the trainer's image must not have to load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["verifiers", "torch", "ray", "datasets", "transformers", "openai", "mcp", "fastapi", "uvicorn", "starlette"]


@pytest.mark.parametrize(
    "module", ["", ".adapter", ".hooks", ".episode", ".read", ".toolserver", ".live", ".rehearsal"]
)
def test_nothing_heavy_is_loaded(module: str) -> None:
    code = (
        f"import sys, agent_env.training.verifiers{module}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_wrong_name_is_an_attribute_error() -> None:
    import agent_env.training.verifiers as package

    with pytest.raises(AttributeError, match="BundleTaskSet"):
        _ = package.BundleTaskSet
    assert "BundleTaskset" in dir(package)
