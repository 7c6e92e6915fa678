"""What an env class serves, and what an author is told."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from agent_env.env import Env, add_data, extension, reset_data, tool
from agent_env.env.access import ToolAccess
from agent_env.env.app import EnvApp
from agent_env.env.card import make_card
from agent_env.env.exceptions import ExtensionError
from agent_env.env.running import run_here
from agent_env.env.server import find_env
from agent_env.env.spec import spec_of
from agent_env.errors import UsageError


class Base(Env):
    @tool
    def first(self) -> str:
        """Base."""
        return "base"

    @tool
    def second(self) -> str:
        return "second"


class Derived(Base, name="derived", tool_access=True):
    @tool(hidden_by_default=True, description="Derived.", meta={"a": 1})
    def first(self) -> str:
        return "derived"

    @extension("urn:agentenv:a:b/v12", op="go", params={"more": 1})
    def go(self) -> None: ...

    @extension("urn:agentenv:a:b/v12", op="stop", path="/stop", description="Stops.", required=True)
    def stop(self) -> None: ...

    @reset_data
    def wipe(self) -> None: ...


def test_inheritance_and_card() -> None:
    spec = spec_of(Derived)
    assert spec is spec_of(Derived)
    assert spec_of(Base).name == "Base"
    assert [item.name for item in spec.tools] == ["first", "second"]
    card = make_card(spec, "d")
    assert card["capabilities"]["operations"] == ["data/reset"]
    assert card["capabilities"]["tools"][0]["description"] == "Derived."
    extensions = {item["uri"]: item for item in card["capabilities"]["extensions"]}
    both = extensions["urn:agentenv:a:b/v12"]
    assert (both["description"], both["required"], both["params"]["more"]) == ("Stops.", True, 1)
    assert both["params"]["methods"]["go"]["endpoint"] == "/agentenv/ext/a/b/go"
    assert both["params"]["methods"]["stop"]["endpoint"] == "/stop"
    assert extensions["urn:agentenv:disable-tool/v1"]["params"]["endpoint"] == "/tools/disable"


def make(name: str, body: dict[str, Any]) -> type[Env]:
    return type(name, (Env,), body)


def named(name: str) -> Any:
    def method(self: object) -> None: ...

    return tool(name=name)(method)


def clashing(uri: str, path: str = "/same") -> Any:
    def method(self: object) -> None: ...

    return extension(uri, path=path)(method)


def adding() -> Any:
    def method(self: object, parts: list[Any]) -> None: ...

    return add_data(method)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"a": named("x"), "b": named("x")}, "two tools are named 'x' (a and b)"),
        ({"a": named("{name}")}, "'{name}' is no tool name"),
        ({"a": named("white space")}, "is no tool name"),
        ({"a": clashing("urn:a"), "b": clashing("urn:b")}, "two extensions are served at POST /same (a and b)"),
        ({"a": staticmethod(named("x"))}, "only plain methods"),
        (
            {"a": adding(), "b": adding()},
            "two methods serve data/add",
        ),
    ],
)
def test_classes_that_cannot_be_served(body: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        spec_of(make("Bad", body))
    assert said in str(refused.value)


def test_routes_and_names_are_checked_when_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="POST /mcp is taken"):
        EnvApp(make("Bad", {"a": clashing("urn:a", "/mcp")})(), run_here)
    cls = make("Twice", {"a": named("{environment_name}_x"), "b": named("y_x")})
    monkeypatch.setenv("ENVIRONMENT_NAME", "y")
    with pytest.raises(UsageError, match="two tools have one name when the env is named 'y'"):
        EnvApp(cls(), run_here)
    with pytest.raises(UsageError, match="must start with a slash"):
        extension("urn:a", path="x")


def test_find_env() -> None:
    module = ModuleType("author")
    with pytest.raises(UsageError, match=r"author: expected one subclass .* found none"):
        find_env(module)
    vars(module).update(Env=Env, Base=Base, Derived=Derived)
    assert find_env(module) is Derived
    module.Own = make("Own", {"__module__": "author"})  # type: ignore[attr-defined]
    assert find_env(module) is module.Own
    module.Other = make("Other", {"__module__": "author"})  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="found Own, Other"):
        find_env(module)
    bad = ModuleType("bad")
    bad.Bad = make("Bad", {"__module__": "bad", "a": named("white space")})  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="is no tool name"):
        find_env(bad)


def test_tool_access_rules() -> None:
    access = ToolAccess(["hidden"])
    assert access.allows(None, "a")
    assert not access.allows(None, "hidden")
    assert access.change("enable", {"role": "x", "tools": ["hidden"]}) == {
        "role": "x",
        "disabled": [],
        "allowed": ["hidden"],
    }
    assert access.allows("x", "hidden")
    assert not access.allows("y", "hidden")
    access.change("disable", {"role": "*", "tools": "*"})  # clears everything else
    assert not access.allows("x", "a")
    assert not access.allows("x", "hidden")
    access.change("enable", {"role": "x", "tools": "*"})
    assert access.allows("x", "a")
    assert not access.allows("x", "hidden")  # heeds only rules that name it
    access.change("disable", {"role": "x", "tools": ["b"]})
    assert access.change("enable", {"role": "*", "tools": ["b"]})["allowed"] == ["b"]
    assert access.allows("x", "b")  # a named tool for every role is set in every role that has rules
    assert access.allows("default", "b") is access.allows(None, "b") is True
    wrong: list[Any] = [[], {}, {"role": " ", "tools": "*"}, {"role": "x", "tools": [1]}, {"role": "x", "tools": "a"}]
    for body in wrong:
        before = access.changes
        with pytest.raises(ExtensionError, match="must be"):
            access.change("disable", body)
        assert access.changes == before


def test_importing_the_sdk_loads_the_standard_library_only() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"  # a machine's sitecustomize and its like
        "import agent_env.env.server\n"
        "import agent_env.env.app\n"
        "import asyncio, threading\n"
        "others = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "assert others <= {'agent_env', '__main__', '__mp_main__'} | {n for n in others if n.startswith('_')}, others\n"
        "assert 'agent_env.plugin' not in sys.modules\n"
        "assert threading.active_count() == 1\n"
        "assert asyncio.events._get_running_loop() is None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_class_that_cannot_be_served_ends_with_one_line(tmp_path: Any) -> None:
    script = tmp_path / "bad.py"
    script.write_text(
        "from agent_env.env import Env, tool\nclass Bad(Env):\n    @tool\n    def f(self, a): ...\nBad.serve()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Bad: Bad.f: parameter 'a' has no type; write one, such as `a: str`\n"
