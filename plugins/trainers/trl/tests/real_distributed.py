"""Two processes with half a group each: ``drop`` leaves the group out in both. Prints what each got, as JSON lines.

Run by the venv of ``make_venv.sh``: ``real_distributed.py URL FOLDER``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agent_env.training.trl import BundleSpec
from agent_env.training.trl.imports import third_party


def play(rank: int, url: str, folder: str) -> None:
    """One process of the trainer: its env dies in the first, and lives in the second."""
    distributed = third_party("torch.distributed")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    spec = BundleSpec(url, on_infra_failure="drop")
    environments: list[Any] = []
    for index in (0, 1):
        environment = spec.environment_factory()
        environment.reset(**spec.rows("train")[index])
        environments.append(environment)
    if rank == 0:
        environments[0].die()
    rewards = spec.reward_funcs(completions=["xyzzy", "xyzzy"], environments=environments)
    Path(folder, f"{rank}.json").write_text(json.dumps(rewards))
    distributed.destroy_process_group()


def main() -> None:
    """Run both."""
    url, folder = sys.argv[1:]
    third_party("torch.multiprocessing").spawn(play, (url, folder), nprocs=2)
    for rank in range(2):
        print(Path(folder, f"{rank}.json").read_text())  # noqa: T201


if __name__ == "__main__":
    main()
