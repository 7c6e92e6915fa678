"""Takes the entry point and the settings of a page of the docs and prints what SkyRL makes of them, as JSON.

Run by the venv of ``make_venv.sh``: ``real_entry.py PAGE``. Ray and the training are left out; the configuration, its
checks and the experiment's class are SkyRL's.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from agent_env.training.skyrl.imports import third_party

# pydantic refuses the one of Python 3.11 in SkyRL's classes.
third_party("typing").TypedDict = third_party("typing_extensions").TypedDict
stub = third_party("stub_engine")

PAGE = Path(sys.argv[1]).read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)```$", PAGE, re.DOTALL | re.MULTILINE)


def settings() -> list[str]:
    """The words of the command that starts the entry point, without the reader's own."""
    (command,) = (block for block in blocks("sh") if block.startswith("python main_bundle.py"))
    return [word for word in shlex.split(command.replace("\\\n", " "))[2:] if word != "..."]


def named() -> list[str]:
    """Settings that the page names."""
    return sorted(set[str](re.findall(r"`((?:generator|environment|trainer|data)(?:\.\w+)+)`", PAGE)))


def lookup(config: Any, name: str) -> str:
    """The value that a dotted name has, as text; an error when there is none."""
    for part in name.split("."):
        config = getattr(config, part)
    return repr(config)


def main() -> None:
    (entry,) = (block for block in blocks("python") if "BundleExp" in block)
    module: dict[str, Any] = {"__name__": "main_bundle"}
    exec(compile(entry, "main_bundle.py", "exec"), module)  # noqa: S102 - the docs are ours
    cfg = module["SkyRLTrainConfig"].from_cli_overrides([*settings(), "trainer.logger=console"])
    module["validate_cfg"](cfg)
    module["register"]()
    exp = object.__new__(module["BundleExp"])
    tokenizer = stub.make_tokenizer()
    generator = exp.get_generator(cfg, tokenizer, stub.StubEngine(None, tokenizer))
    envs = third_party("skyrl_gym.envs.registration").registry
    known: dict[str, str | None] = {}
    for name in named():
        try:
            known[name] = lookup(cfg, name)
        except AttributeError:
            known[name] = None
    report = {
        "generator": [base.__name__ for base in type(generator).__mro__],
        "max_turns": generator.generator_cfg.max_turns,
        "train_data": list(cfg.data.train_data),
        "env": envs["agentenv"].entry_point,
        "run_is_remote": hasattr(module["run"], "remote"),
        "unknown": sorted(name for name, value in known.items() if value is None),
        "named": len(known),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
