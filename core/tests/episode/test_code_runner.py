"""The runner of a bundle's code, as a process that knows nothing of this package."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from agent_env.episode import code_runner

RUNNER = Path(code_runner.__file__)


def run(
    folder: Path, text: str, *args: Any, function: str = "verify", record: Any = None, file: str = "verify.py"
) -> Any:
    """Write the code, run it in a child without site packages, return the answer."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    request = {"folder": str(folder), "file": file, "function": function, "args": args, "run": record}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(RUNNER)],
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout), done.stderr.decode()


def test_sync_and_async_functions(tmp_path: Path) -> None:
    answer, _ = run(tmp_path, "def verify(url):\n    return [{'result': url == 'u'}]", "u")
    assert answer == {"ok": [{"result": True}]}
    answer, _ = run(tmp_path, "import asyncio\nasync def verify(url):\n    await asyncio.sleep(0)\n    return url", "u")
    assert answer == {"ok": "u"}


def test_output_of_the_code_is_not_the_answer(tmp_path: Path) -> None:
    code = """
    import os, subprocess, sys
    print('{"ok": "fake"}')
    def verify():
        os.write(1, b'{"ok": "fake"}')
        subprocess.run(["echo", "from a child"])
        sys.__stdout__.write("direct")
        return sys.stdin.read()
    """
    answer, stderr = run(tmp_path, code)
    assert answer == {"ok": ""}
    for words in ("fake", "from a child", "direct"):
        assert words in stderr


def test_siblings_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "near.py").write_text("VALUE = 8\n")
    answer, _ = run(
        tmp_path, "import helper, near\ndef verify():\n    return [helper.VALUE, near.VALUE]", file="inner/v.py"
    )
    assert answer == {"ok": [7, 8]}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def verify():\n    return deeper()\ndef deeper():\n    raise ValueError('bad day')", "ValueError: bad day"),
        ("def verify():\n    raise SystemExit(3)", "SystemExit: 3"),
        ("def verify(:\n    pass", "SyntaxError"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("x = 1", "verify.py defines no function verify()"),
        ("def verify():\n    return float('nan')", "returned what is no JSON"),
        ("def verify():\n    return {1, 2}", "returned what is no JSON"),
        ("def verify():\n    a = []\n    a.append(a)\n    return a", "returned what is no JSON"),
        ("def verify(need):\n    pass", "missing 1 required positional argument"),
    ],
)
def test_what_goes_wrong_is_an_answer_with_words(tmp_path: Path, code: str, words: str) -> None:
    answer, _ = run(tmp_path, code)
    assert words in answer["error"]
    assert "code_runner" not in answer["error"]


def test_an_error_shows_the_frames_of_the_bundles_code(tmp_path: Path) -> None:
    answer, _ = run(tmp_path, "def verify():\n    return deeper()\ndef deeper():\n    return {}['key']")
    assert "verify.py:2 in verify: return deeper()" in answer["error"]
    assert "verify.py:4 in deeper" in answer["error"]


def test_threads_left_behind_do_not_hold_the_answer(tmp_path: Path) -> None:
    code = """
    import threading, time
    def verify():
        threading.Thread(target=time.sleep, args=(3600,)).start()
        return 1
    """
    assert run(tmp_path, code)[0] == {"ok": 1}


def test_the_conversation_is_given_to_a_parameter_run(tmp_path: Path) -> None:
    code = """
    def verify(url, *, run):
        turn = run.turn(1)
        return [turn.number, turn.message.text, turn.reply.text, turn.reply.role, len(run.turns),
                run.firings("t", env="e"), run.as_of(0).turns, run.as_of(1) is run]
    """
    record = {"turns": [{"number": 1, "message": "Sell?", "reply": "Sold."}]}
    assert run(tmp_path, code, "u", record=record)[0] == {"ok": [1, "Sell?", "Sold.", "agent", 1, [], [], True]}


def test_a_conversation_that_was_not_recorded_is_not_an_empty_one(tmp_path: Path) -> None:
    code = "def verify(run):\n    return len(run.turns)"
    assert "RunRecordUnavailable: conversation" in run(tmp_path, code)[0]["error"]
    record: dict[str, Any] = {"turns": [], "unavailable": {"conversation": "no prompt yet"}}
    assert "conversation: no prompt yet" in run(tmp_path, code, record=record)[0]["error"]
    assert (
        "the run has no turn 2" in run(tmp_path, "def verify(run):\n    run.turn(2)", record={"turns": []})[0]["error"]
    )


def test_a_host_can_call_it_in_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.py").write_text("def go(a, b):\n    print('aside')\n    return a + b\n")
    request = {"folder": str(tmp_path), "file": "v.py", "function": "go", "args": [1, 2]}
    assert code_runner.run_request(request) == {"ok": 3}
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "aside\n")


def test_it_runs_on_old_pythons_without_this_package() -> None:
    tree = ast.parse(RUNNER.read_text(), feature_version=(3, 8))
    imports = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imports <= sys.stdlib_module_names
