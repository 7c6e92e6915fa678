"""Find a policy, a stand-in model written as a Python function ``reply(messages, tools) -> assistant message``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def load_module_file(path: Path) -> ModuleType:
    """Import a Python file by its path; its folder is not put on ``sys.path``.

    Raises:
        UsageError: the file does not exist or fails to import.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    name = f"agentenv_file_{path.stem}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def load_function(text: str) -> Callable[..., Any]:
    """The function named ``FILE.py:NAME`` or ``package.module:NAME``.

    Raises:
        UsageError: with what stands there instead.
    """
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise UsageError(f"{text!r} names no function; write FILE.py:NAME or package.module:NAME")
    if where.endswith(".py"):
        module = load_module_file(Path(where))
    else:
        try:
            module = importlib.import_module(where)
        except ImportError as error:
            raise UsageError(f"cannot import {where!r}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{where} has no function {name!r}; it has: {', '.join(function_names(module)) or 'none'}")
    return cast("Callable[..., Any]", function)


def function_names(module: ModuleType) -> list[str]:
    """Public functions that the module itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    ]


class CheckedPolicy:
    """A policy whose replies are looked at: what is no assistant message is the user's mistake, and is not played.

    Args:
        reply: the policy.
        name: for the message.
        on_mistake: called from the policy's thread, once.

    Attributes:
        mistake: the error to raise, or `None`.
    """

    def __init__(self, reply: Callable[..., Any], name: str, on_mistake: Callable[[], object]) -> None:
        self._reply = reply
        self._name = name
        self._on_mistake = on_mistake
        self.mistake: UsageError | None = None

    def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The reply.

        Raises:
            UsageError: it is no assistant message.
        """
        if self.mistake is not None:
            raise self.mistake
        reply: object = self._reply(messages, tools)
        if isinstance(reply, str):
            return {"content": reply}
        wrong = message_problem(reply)
        if wrong is None:
            return cast("dict[str, Any]", reply)
        self.mistake = UsageError(
            f"policy {self._name!r} returned {wrong}; a policy returns an assistant message such as "
            '{"content": "text"} or {"tool_calls": [{"function": {"name": "tool", "arguments": {}}}]}'
        )
        self._on_mistake()
        raise self.mistake


def message_problem(reply: object) -> str | None:
    """What is wrong with ``reply`` as an assistant message, or `None`."""
    if inspect.iscoroutine(reply):
        reply.close()
        return "a coroutine: it has to be a plain function, not an async one"
    if not isinstance(reply, Mapping):
        return f"{_short(reply)}, which is no assistant message"
    message = dict(cast("Mapping[str, Any]", reply))
    if message.get("content") is None and message.get("tool_calls") is None:
        return f"{_short(message)}, which has neither 'content' nor 'tool_calls'"
    if message.get("role", "assistant") != "assistant":
        return f"a message of the role {message['role']!r}"
    if not isinstance(message.get("content") or "", str):
        return f"the content {_short(message['content'])}, which is no text"
    calls: object = message.get("tool_calls") or []
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return f"the tool_calls {_short(calls)}, which are no list"
    for call in cast("Sequence[object]", calls):
        if not isinstance(_fields(_fields(call).get("function") or call).get("name"), str):
            return f"the tool call {_short(call)}, which names no function"
    return None


def _fields(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def load_policy(bundle: Path, text: str, *, seed: int = 0) -> Callable[..., dict[str, Any]]:
    """The policy ``text``: ``random``, a function of ``<bundle>/policies.py``, or ``FILE.py:NAME``.

    Raises:
        UsageError: there is none of that name; lists those there are.
    """
    if ":" in text:
        return load_function(text)
    file = bundle / "policies.py"
    names: list[str] = []
    if file.is_file():
        module = load_module_file(file)
        names = function_names(module)
        if text in names:
            return cast("Callable[..., dict[str, Any]]", getattr(module, text))
    if text == "random":
        from agent_env.testing.random_policy import random_policy

        return random_policy(seed=seed)
    known = ", ".join([*names, "random"])
    raise UsageError(f"no policy {text!r} in {file}; there are: {known}. FILE.py:NAME names a function elsewhere")
