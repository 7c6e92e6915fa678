"""The checks of trainer adapters find what is broken, each the check that is for it."""

from __future__ import annotations

import os
import sys
import types
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin import TrainerInfo, hookimpl
from agent_env.registry import Registry
from agent_env.testing.checks import run_checks
from agent_env.testing.rehearsal_checks import TrainerChecks
from agent_env.testing.trainer_checks import TrainerCase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOUND = """
from __future__ import annotations
import asyncio, dataclasses, json, os, tempfile
from pathlib import Path
from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample, TrainerAdapter
from agent_env.rollout.rows import write_row_files

class Row:
    def __init__(self, url, settings):
        self.own = {"url": url, **dataclasses.asdict(settings)}
    def __call__(self, split, task, tools, /):
        return json.dumps({"prompt": task["prompt"], "split": split, "index": task["index"], "id": task["id"],
                           "tools": json.loads(tools), "own": self.own})

class Adapter(TrainerAdapter):
    name = "it"

    async def write_rows(self, url, out, settings, *, progress=None):
        return await write_row_files(url, out, settings, Row(url, settings), progress=progress)

    async def rehearse(self, plan):
        with tempfile.TemporaryDirectory() as folder:
            only = {plan.split: plan.groups}
            files = await write_row_files(plan.url, Path(folder), plan.rows, Row(plan.url, plan.rows), only=only)
            if not files:
                raise UsageError(f"the server has no split {plan.split!r}")
            rows = [json.loads(line) for line in files[0].read_text().splitlines()]
        for row in rows:
            samples = []
            for _ in range(plan.samples):
                samples.append(await self.play(plan, row))
                yield samples[-1]
            kept = all(sample.failure is None for sample in samples)
            yield RehearsalGroup(row["id"], kept, tuple(samples))

    async def play(self, plan, row):
        from agent_env.rollout import ChatModel, Rollout, Target
        from agent_env.testing.standin import StandInModel
        messages = [{"role": "user", "content": row["prompt"]}]
        async with StandInModel(plan.reply) as server, ChatModel(server.url) as model:
            target = Target(plan.url, row["split"], row["index"])
            done = await Rollout(target, messages, row["tools"], model).play()
        return RehearsalSample(row["id"], done.reward, done.scores, done.tool_calls, done.invalid_calls, done.failure,
                               done.turns, 7, 0.1, transcript=done.messages)
"""

# What is changed in the sound adapter, and the checks that must find it.
BROKEN: dict[str, tuple[str, str, set[str]]] = {
    "another name": ('name = "it"', 'name = "that"', {"it_is_found_by_its_name"}),
    "heavy import": ("import asyncio,", "import starlette, asyncio,", {"its_import_is_light"}),
    "own trainer": ("import asyncio,", "import it, asyncio,", {"its_import_is_light"}),
    "a split too few": (
        "progress=progress)\n\n",
        'progress=progress, only={"all": 2, "eval": 1})\n\n',
        {"rows_are_written_for_every_split"},
    ),
    "a row too few": (
        "progress=progress)\n\n",
        "progress=progress, only=dict.fromkeys(['all', 'eval', 'train'], 1))\n\n",
        {"rows_are_written_for_every_split", "rows_are_replaced_whole"},
    ),
    "no prompt": ('"prompt": task["prompt"]', '"prompt": ""', {"rows_are_written_for_every_split"}),
    "no progress": ("progress=progress)\n\n", "progress=None)\n\n", {"rows_are_written_for_every_split"}),
    "a file beside": (
        "        return await write_row_files(url, out",
        (
            '        out.mkdir(exist_ok=True); (out / "notes.txt").write_text("x")\n'
            "        return await write_row_files(url, out"
        ),
        {"rows_are_written_for_every_split", "a_server_that_cannot_be_reached_is_an_error"},
    ),
    "the token": (
        '"url": url,',
        '"url": url, "token": os.environ.get(settings.token_var or "-"),',
        {"the_token_stays_out_of_rows"},
    ),
    "appends": (
        "        return await write_row_files(url, out",
        (
            "        old = {p: p.read_bytes() for p in out.glob('*')} if out.is_dir() else {}\n"
            "        files = await write_row_files(url, out, settings, Row(url, settings), progress=progress)\n"
            "        for p in files: p.write_bytes(old.get(p, b'') + p.read_bytes())\n"
            "        return files\n"
            "        return await write_row_files(url, out"
        ),
        {"rows_are_replaced_whole"},
    ),
    "files in pieces": (
        "        return await write_row_files(url, out",
        (
            "        out.mkdir(exist_ok=True)\n"
            "        for split in ('all', 'eval', 'train'): (out / f'{split}.jsonl').write_text('')\n"
            "        return await write_row_files(url, out"
        ),
        {"a_server_that_breaks_leaves_no_file", "a_server_that_cannot_be_reached_is_an_error"},
    ),
    "its own error": (
        "        return await write_row_files(url, out, settings, Row(url, settings), progress=progress)",
        (
            "        try: return await write_row_files(url, out, settings, Row(url, settings), progress=progress)\n"
            "        except Exception as error: raise RuntimeError(str(error)) from None"
        ),
        {
            "a_server_that_cannot_be_reached_is_an_error",
            "a_folder_that_cannot_be_written_is_an_error",
            "a_token_that_is_missing_or_wrong_is_an_error",
            "a_server_that_breaks_leaves_no_file",
        },
    ),
    "groups first": ("                yield samples[-1]\n", "", {"a_rehearsal_plays_groups"}),
    "a sample too few": ("range(plan.samples)", "range(plan.samples - 1)", {"a_rehearsal_plays_groups"}),
    "a rounded reward": ("done.reward,", "0.5,", {"a_rehearsal_plays_groups", "a_wrong_answer_is_a_reward_of_0"}),
    "0 for a failure": ("done.reward,", "done.reward or 0.0,", {"a_dead_env_is_a_failure"}),
    "no failure": ("done.failure,", "None,", {"a_dead_env_is_a_failure"}),
    "keeps all": ("kept = all(", "kept = True or all(", {"a_dead_env_is_a_failure"}),
    "another split": (
        '                raise UsageError(f"the server has no split {plan.split!r}")',
        "                return",
        {"an_unknown_split_is_an_error"},
    ),
    "no transcript": ("transcript=done.messages", "transcript=()", {"a_rehearsal_plays_groups"}),
    "goes on": (
        "        for row in rows:\n",
        ("        global task; task = asyncio.ensure_future(forever())\n        for row in rows:\n"),
        {"a_rehearsal_can_be_left"},
    ),
}
FOREVER = "\nasync def forever():\n    await asyncio.Event().wait()\n"


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], TrainerCase]:
    """``case(text)``: the adapter ``it``, in a module of this text that other processes find too."""

    def make(text: str) -> TrainerCase:
        name = f"adapter_of_a_test_{len(sys.modules)}"
        (tmp_path / f"{name}.py").write_text(dedent(text) + FOREVER)
        (tmp_path / "it.py").write_text("")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.setitem(os.environ, "PYTHONDONTWRITEBYTECODE", "1")
        hooks = types.ModuleType("hooks")

        @hookimpl
        def agentenv_trainers() -> list[TrainerInfo]:
            return [TrainerInfo("it", "A trainer", f"{name}:Adapter")]

        hooks.agentenv_trainers = agentenv_trainers  # type: ignore[attr-defined]
        return TrainerCase("it", registry=Registry({"acme:acme": hooks}))

    return make


def failed(case: TrainerCase, only: set[str] | None = None) -> dict[str, str]:
    results = run_checks(TrainerChecks, case, only=only)
    return {result.name: result.reason for result in results if result.status != "passed"}


def test_a_sound_adapter_passes_everything(case: Callable[[str], TrainerCase]) -> None:
    assert failed(case(SOUND)) == {}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(case: Callable[[str], TrainerCase], what: str) -> None:
    old, new, wrong = BROKEN[what]
    assert old in SOUND
    assert set(failed(case(SOUND.replace(old, new)), wrong)) == wrong


@pytest.mark.parametrize("what", ["the token", "keeps all"])
def test_nothing_else_is_blamed(case: Callable[[str], TrainerCase], what: str) -> None:
    old, new, wrong = BROKEN[what]
    assert set(failed(case(SOUND.replace(old, new)))) == wrong
