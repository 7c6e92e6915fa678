"""What an install weighs and what an import costs.

    python bench/install.py [--json FILE]

Installs from wheels built on the spot into environments of their own (needs uv); times are the best of several starts,
set beside a bare interpreter of the same environment.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOALS = {
    "rollout": {"packages": 25, "mb": 40},
    "server": {"packages": 40, "mb": 80},
    "import agent_env.training.miles.agent": 0.3,
    "import agent_env.openenv; build_app": 0.6,
    "agentenv --version": 0.15,
}


def uv(*arguments: str) -> None:
    subprocess.run(["uv", "-q", *arguments], check=True, cwd=ROOT)


def build(out: Path) -> None:
    for folder in ("core", "plugins/sandboxes/process", "plugins/trainers/miles"):
        uv("build", "--wheel", "--out-dir", str(out), folder)


def install(folder: Path, wheels: Path, *requirements: str) -> Path:
    uv("venv", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    uv("pip", "install", "--python", str(python), "--find-links", str(wheels), *requirements)
    return python


def weigh(python: Path) -> dict[str, Any]:
    site = next((python.parent.parent / "lib").glob("python*/site-packages"))
    packages = len(list(site.glob("*.dist-info")))
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {"packages": packages, "mb": size / 1e6}


def best(command: list[str], runs: int = 9) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        wheels = here / "wheels"
        build(wheels)
        rollout = install(here / "rollout", wheels, "agentenv-trainer-miles")
        server = install(here / "server", wheels, "agentenv-core[server]")
        found: dict[str, Any] = {"rollout": weigh(rollout), "server": weigh(server)}
        app = "from agent_env.openenv import build_app"
        commands = {
            "bare interpreter": [str(server), "-c", "pass"],
            "import agent_env.training.miles.agent": [str(rollout), "-c", "import agent_env.training.miles.agent"],
            "import agent_env.openenv; build_app": [str(server), "-c", app],
            "agentenv --version": [str(server.parent / "agentenv"), "--version"],
        }
        for name, command in commands.items():
            found[name] = best(command)
    for name in ("rollout", "server"):
        goal = GOALS[name]
        got = found[name]
        print(f"{name + ' install':<42}{got['packages']:>5} packages {got['mb']:>7.1f} MB   goal {goal}")
    bare = found["bare interpreter"]
    for name in commands:
        print(f"{name:<42}{found[name]:>8.3f} s  {found[name] / bare:>6.1f} x bare   goal {GOALS.get(name, '-')}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
