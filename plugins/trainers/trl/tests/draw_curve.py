"""Draws the learning curve that `train_lamp.py` wrote: ``draw_curve.py CURVE.json docs/training/trl-curve.svg``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agent_env.training.trl.imports import third_party

WINDOW = 5


def main(curve: Path, picture: Path) -> None:
    """Draw the mean reward of every step, and their running mean."""
    matplotlib: Any = third_party("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "agentenv", "svg.fonttype": "none", "font.size": 10})
    pyplot: Any = third_party("matplotlib.pyplot")
    report = json.loads(curve.read_text(encoding="utf-8"))
    rewards: list[float] = report["rewards"]
    steps = range(1, len(rewards) + 1)
    running = [sum(rewards[max(0, at - WINDOW) : at]) / min(at, WINDOW) for at in steps]
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    axes.plot(steps, rewards, ".", color="#9aa5b1", label=f"mean of {report['batch']} rollouts")
    axes.plot(steps, running, color="#1f5fa8", linewidth=2, label=f"running mean of {WINDOW} steps")
    axes.set_xlabel("GRPO step")
    axes.set_ylabel("reward")
    axes.set_ylim(0, 1)
    axes.set_xlim(0, len(rewards) + 1)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    axes.set_title("GRPOTrainer on a served bundle, tiny random model on a CPU", fontsize=10)
    figure.savefig(picture, metadata={"Date": None})
    text = picture.read_text(encoding="utf-8")
    picture.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
