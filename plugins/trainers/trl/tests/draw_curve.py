"""Draws what runs of `train_lamps.py` wrote: ``draw_curve.py docs/training/trl-curve.svg RUN.json [FURTHER.json…]``.

The first run is drawn strong, with the rewards of its steps; the others, of other seeds, are light.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agent_env.training.trl.imports import third_party

WINDOW = 5
BLIND = 0.25
"""What the best call earns that is the same for every prompt."""


def main(picture: Path, runs: list[Path]) -> None:
    """Draw the running means of all runs, the steps of the first, and the line of the best blind call."""
    matplotlib: Any = third_party("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "agentenv", "svg.fonttype": "none", "font.size": 10})
    pyplot: Any = third_party("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    reports = [json.loads(run.read_text(encoding="utf-8")) for run in runs]
    for report in reversed(reports):
        rewards: list[float] = report["rewards"]
        steps = range(1, len(rewards) + 1)
        running = [sum(rewards[max(0, at - WINDOW) : at]) / min(at, WINDOW) for at in steps]
        if report is reports[0]:
            axes.plot(steps, rewards, ".", color="#9aa5b1", markersize=4, label=f"mean of {report['batch']} rollouts")
            name = f"running mean of {WINDOW} steps, seed {report['seed']}"
            axes.plot(steps, running, color="#1f5fa8", linewidth=2.2, label=name)
        else:
            name = f"seed {', '.join(str(other['seed']) for other in reports[1:])}"
            axes.plot(steps, running, color="#a9c4e4", linewidth=1.2, label=name if report is reports[1] else None)
    axes.axhline(BLIND, color="#b0413e", linewidth=1, linestyle="--", label="best call that ignores the prompt")
    axes.set_xlabel("GRPO step")
    axes.set_ylabel("reward")
    axes.set_ylim(0, 1)
    axes.set_xlim(0, max(len(report["rewards"]) for report in reports) + 1)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False, fontsize=8, ncols=2)
    axes.set_title("GRPOTrainer on a served bundle, tiny random model on a CPU", fontsize=10)
    figure.savefig(picture, metadata={"Date": None})
    text = picture.read_text(encoding="utf-8")
    picture.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
