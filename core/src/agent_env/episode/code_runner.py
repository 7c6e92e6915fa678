"""Runs one function of a bundle's Python code in a child process.

A plain file for any Python from 3.8 on, standard library only: it is copied into images and loaded by hosts that know
nothing of this package. As a script it reads one request as JSON from stdin and writes one answer as JSON to stdout::

    {"folder": "/code", "file": "verify.py", "function": "verify", "args": [...], "run": {...} or null}
    {"ok": value}  or  {"error": "what happened, and where in the bundle's code"}

What the code prints goes to stderr, so that it cannot be taken for the answer. A host that forks calls `run_request`
in the child and sends the answer its own way.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

FRAMES = 4
MODULE = "agentenv_bundle_code"
CONVERSATION = "conversation"


# -- the parameter `run` of a verifier --------------------------------------------------------------------------------


class RunRecordUnavailable(LookupError):
    """The graded conversation was asked for something that was not recorded."""


class Message:
    """One side of a turn.

    Attributes:
        turn: number of the turn, from 1.
        role: ``user`` or ``agent``.
        text: what was said.
    """

    sent_at = None
    author = None
    user_sim = None
    env_clock = None
    written_by_triggers: tuple[str, ...] = ()

    def __init__(self, turn: int, role: str, text: str) -> None:
        self.turn = turn
        self.role = role
        self.text = text
        self.parts = ({"kind": "text", "text": text},)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Message(turn={self.turn!r}, role={self.role!r}, text={self.text!r})"


class Turn:
    """A turn: its ``number``, the ``message`` that opened it, the agent's ``reply`` or `None`."""

    firings: tuple[Any, ...] = ()

    def __init__(self, number: int, message: Message, reply: Message | None) -> None:
        self.number = number
        self.message = message
        self.reply = reply

    def __repr__(self) -> str:
        return f"Turn(number={self.number!r}, message={self.message!r}, reply={self.reply!r})"


class Run:
    """The conversation of the graded prompt. Tasks with triggers are not played, so nothing ever fired."""

    def __init__(self, turns: tuple[Turn, ...], unavailable: Mapping[str, str]) -> None:
        self._turns = turns
        self.unavailable = dict(unavailable)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, from number 1.

        Raises:
            RunRecordUnavailable: the conversation was not recorded; it never looks empty instead.
        """
        if CONVERSATION in self.unavailable:
            raise RunRecordUnavailable(CONVERSATION + ": " + self.unavailable[CONVERSATION])
        return self._turns

    def turn(self, number: int) -> Turn:
        """The turn of this number."""
        if not 1 <= number <= len(self.turns):
            raise LookupError("the run has no turn " + repr(number))
        return self._turns[number - 1]

    def firings(self, trigger_id: str | None = None, *, env: str | None = None) -> tuple[Any, ...]:
        """What fired, of this trigger and env: nothing."""
        del trigger_id, env
        return ()

    def firing(self, trigger_id: str, *, env: str | None = None) -> None:
        """The first firing of a trigger: none."""
        del trigger_id, env

    def as_of(self, turn: int) -> Run:
        """The run as it was after this turn."""
        if turn < 0:
            raise ValueError("turn must be 0 or more, got " + repr(turn))
        if CONVERSATION in self.unavailable or turn >= len(self._turns):
            return self
        return Run(self._turns[:turn], self.unavailable)


def make_run(record: Mapping[str, Any]) -> Run:
    """The object behind the record that `agent_env.episode.grading` writes."""
    turns: list[Turn] = []
    for item in record.get("turns", ()):
        number = int(item["number"])
        reply = item.get("reply")
        turns.append(
            Turn(
                number,
                Message(number, "user", str(item["message"])),
                None if reply is None else Message(number, "agent", str(reply)),
            )
        )
    return Run(tuple(turns), record.get("unavailable") or {})


# -- running ----------------------------------------------------------------------------------------------------------


def run_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Load the file, call the function, and answer ``{"ok": value}`` or ``{"error": text}``. It never raises."""
    folder = os.path.abspath(str(request["folder"]))  # noqa: PTH100
    try:
        with contextlib.redirect_stdout(sys.stderr):
            value = _call(folder, request)
    except BaseException as error:  # noqa: BLE001
        return {"error": _describe(error, folder)}
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": "{}() returned what is no JSON: {}".format(request["function"], error)}
    return {"ok": value}


def _call(folder: str, request: Mapping[str, Any]) -> Any:
    module = _load(folder, str(request["file"]))
    name = str(request["function"])
    function = getattr(module, name, None)
    if not callable(function):
        missing = "{} defines no function {}()".format(request["file"], name)
        raise LookupError(missing)  # noqa: TRY004
    keywords: dict[str, Any] = {}
    if "run" in inspect.signature(function).parameters:
        record = request.get("run")
        if record is None:
            record = {"unavailable": {CONVERSATION: "it was not given"}}
        keywords["run"] = make_run(cast("Mapping[str, Any]", record))
    value = function(*request.get("args", ()), **keywords)
    return asyncio.run(_wait(value)) if inspect.isawaitable(value) else value


async def _wait(value: Any) -> Any:
    return await value


def _load(folder: str, file: str) -> ModuleType:
    path = os.path.join(folder, file)  # noqa: PTH118
    for entry in (folder, os.path.dirname(path)):  # noqa: PTH120
        if entry in sys.path:
            sys.path.remove(entry)
        sys.path.insert(0, entry)
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(file + " is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _describe(error: BaseException, folder: str) -> str:
    """The error in a few lines, with the frames that lie in the bundle's code."""
    if isinstance(error, SyntaxError):
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.abspath(frame.filename).startswith(folder + os.sep)  # noqa: PTH100
    ]
    lines = [
        "  {}:{} in {}: {}".format(os.path.relpath(frame.filename, folder), frame.lineno, frame.name, frame.line or "")
        for frame in frames[-FRAMES:]
    ]
    return "\n".join([text[:4000], *lines])


def main() -> None:
    """Answer the request on stdin. Whatever the code leaves running ends with the process."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read())
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    answer = json.dumps(run_request(request), allow_nan=False).encode()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    while answer:
        answer = answer[os.write(answer_to, answer) :]
    os._exit(0)


if __name__ == "__main__":
    main()
