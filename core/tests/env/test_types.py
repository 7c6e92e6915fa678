"""Typed parameters: the schema and the check agree, and messages say what to mend.

Annotations are read at run time here, as in an author's module.
"""

import datetime as dt
import decimal
import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict

import pytest
from agent_env.env import ToolContext
from agent_env.env.signature import Signature
from agent_env.env.types.jsonable import to_json
from agent_env.errors import UsageError
from hypothesis import given
from hypothesis import strategies as st


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(TypedDict):
    x: int
    label: NotRequired[str]


class Loose(TypedDict, total=False):
    a: int


@dataclass
class Tree:
    """Contains itself."""

    value: int
    left: "Tree | None" = None
    children: "list[Tree]" = field(default_factory=list["Tree"])


@dataclass
class Plan:
    steps: Annotated[list[int], "one for each hour"]
    name: str = "plan"


Meters = NewType("Meters", float)


class Everything:
    def text(self, v: str) -> None: ...
    def flag(self, v: bool) -> None: ...
    def whole(self, v: int) -> None: ...
    def number(self, v: float) -> None: ...
    def nothing(self, v: None) -> None: ...
    def anything(self, v: Any) -> None: ...
    def maybe(self, v: Optional[int] = None) -> None: ...  # noqa: UP045 - authors write this
    def either(self, v: int | str | list[bool]) -> None: ...
    def items(self, v: list[int]) -> None: ...
    def nested(self, v: list[list[str]]) -> None: ...
    def bare(self, v: list) -> None: ...  # type: ignore[type-arg]
    def pair(self, v: tuple[int, str]) -> None: ...
    def row(self, v: tuple[int, ...]) -> None: ...
    def members(self, v: set[int]) -> None: ...
    def table(self, v: dict[str, float]) -> None: ...
    def mapping(self, v: Mapping[str, Any]) -> None: ...
    def sequence(self, v: Sequence[bool]) -> None: ...
    def words(self, v: Literal["a", "b", 3, None, True]) -> None: ...  # noqa: PYI061
    def color(self, v: Color) -> None: ...
    def level(self, v: Level) -> None: ...
    def point(self, v: Point) -> None: ...
    def loose(self, v: Loose) -> None: ...
    def plan(self, v: Plan) -> None: ...
    def tree(self, v: Tree) -> None: ...
    def alias(self, v: Annotated[Meters, "length"]) -> None: ...


METHODS = [name for name in vars(Everything) if not name.startswith("_")]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["a", "b", "red", "blue", "", "1", "x"]),
    st.sampled_from([1.0, 2.0, 3.0]),
)
keys = st.sampled_from(["x", "label", "a", "value", "left", "children", "steps", "name", "other"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


def signature(name: str) -> Signature:
    return Signature(getattr(Everything, name), f"Everything.{name}")


@pytest.mark.parametrize("name", METHODS)
def test_the_schema_accepts_what_the_check_accepts(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = signature(name)
    validator = jsonschema.Draft202012Validator(found.schema)
    validator.check_schema(found.schema)

    @given(st.one_of(st.fixed_dictionaries({"v": values}), st.dictionaries(st.sampled_from(["v", "w"]), scalars)))
    def agree(arguments: dict[str, Any]) -> None:
        _, problems = found.read(arguments)
        assert (not problems) is validator.is_valid(arguments), problems

    agree()


@given(values)
def test_lax_reading_accepts_all_that_strict_reading_does(value: Any) -> None:
    for name in METHODS:
        found = signature(name)
        strict, problems = found.read({"v": value})
        if not problems:
            assert found.read({"v": value}, lax=True) == (strict, [])


def test_values_become_what_the_types_say() -> None:
    cases: list[tuple[str, Any, Any]] = [
        ("whole", 3.0, 3),
        ("number", 3, 3.0),
        ("pair", [1, "a"], (1, "a")),
        ("row", [1, 2], (1, 2)),
        ("members", [1, 1], {1}),
        ("color", "red", Color.RED),
        ("level", 2, Level.HIGH),
        ("point", {"x": 1}, {"x": 1}),
        ("plan", {"steps": [1]}, Plan([1])),
        ("tree", {"value": 1, "children": [{"value": 2}]}, Tree(1, None, [Tree(2)])),
    ]
    for name, given_value, meant in cases:
        read, problems = signature(name).read({"v": given_value})
        assert (read["v"], problems) == (meant, []), name
        assert type(read["v"]) is type(meant)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("whole", True, "v: expected an integer, got true"),
        ("whole", "7", 'v: expected an integer, got the string "7"'),
        ("whole", 7.5, "v: expected an integer, got the number 7.5"),
        ("items", [1, "x", 2.5], 'v[1]: expected an integer, got the string "x"; v[2]: expected an integer, got'),
        ("pair", [1], "v: expected a list of 2 items, got 1"),
        ("either", {}, "v: expected an integer, a string or a list, got an object"),
        ("either", ["x"], 'v[0]: expected true or false, got the string "x"'),
        ("maybe", "x", 'v: expected an integer or null, got the string "x"'),
        ("color", "bleu", "did you mean 'blue'?"),
        ("point", {"lable": "a"}, "v.lable: unknown field; did you mean 'label'?; v.x: missing; expected an integer"),
        ("tree", {"value": 1, "left": {"value": "x"}}, 'v.left.value: expected an integer, got the string "x"'),
        pytest.param("text", 10**5000, "v: expected a string, got the number with very many digits", id="huge"),
        ("number", 10**400, "v: expected a number, got the number 1000"),
    ],
)
def test_messages(name: str, value: Any, said: str) -> None:
    _, problems = signature(name).read({"v": value})
    assert said in "; ".join(problems)


class Typed:
    def when(self, day: dt.date, at: dt.datetime, clock: dt.time) -> None: ...
    def ids(self, one: uuid.UUID, price: decimal.Decimal) -> None: ...
    def lax(self, n: int, f: float, b: bool, c: Color, o: int | None = None) -> None: ...
    def extra(self, a: int, **rest: float) -> None: ...
    def who(self, a: int, me: ToolContext | None = None) -> None: ...

    def documented(self, a: int, b: Annotated[str, "from the type"] = "x", c: Color = Color.RED) -> None:
        """Does it.

        More about it.

        Args:
            a: the first,
                on two lines.
            b: from the text.
            c (Color): a color.

        Returns:
            Nothing.
        """


def test_text_forms() -> None:
    found = Signature(Typed.when, "when")
    read, problems = found.read({"day": "2024-05-31", "at": "2024-05-31T10:00:00+00:00", "clock": "10:30"})
    assert problems == []
    assert (read["day"], read["clock"]) == (dt.date(2024, 5, 31), dt.time(10, 30))
    assert found.schema["properties"]["day"] == {"type": "string", "format": "date"}
    assert "expected a date such as" in found.read({"day": "x", "at": "x", "clock": "x"})[1][0]
    read, problems = Signature(Typed.ids, "ids").read({"one": "12345678" * 4, "price": 1.5})
    assert (read["price"], problems) == (decimal.Decimal("1.5"), [])


def test_query_strings_are_read_as_the_types_say() -> None:
    found = Signature(Typed.lax, "lax")
    read, problems = found.read({"n": "3", "f": "1e3", "b": "On", "c": "blue", "o": "4"}, lax=True)
    assert (read, problems) == ({"n": 3, "f": 1000.0, "b": True, "c": Color.BLUE, "o": 4}, [])
    assert len(found.read({"n": "3.5", "f": "x", "b": "maybe", "c": "x"}, lax=True)[1]) == 4


def test_extra_keywords_and_context() -> None:
    found = Signature(Typed.extra, "extra")
    assert found.read({"a": 1, "b": 2})[0] == {"a": 1, "b": 2.0}
    assert found.schema["additionalProperties"] == {"type": "number"}
    who = Signature(Typed.who, "who")
    assert who.context == "me"
    assert list(who.schema["properties"]) == ["a"]


def test_descriptions() -> None:
    found = Signature(Typed.documented, "documented")
    assert found.description == "Does it.\n\nMore about it.\n\nReturns:\n    Nothing."
    properties = found.schema["properties"]
    assert properties["a"]["description"] == "the first, on two lines."
    assert properties["b"] == {"type": "string", "description": "from the type", "default": "x"}
    assert (properties["c"]["description"], properties["c"]["default"]) == ("a color.", "red")
    assert found.schema["required"] == ["a"]


def test_pydantic_models_when_the_author_uses_them() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        amount: int
        note: str = ""

    class Shop:
        def buy(self, order: Any, count: Any) -> None: ...

    Shop.buy.__annotations__.update(order=Order, count=Annotated[int, pydantic.Field(ge=1)])
    found = Signature(Shop.buy, "buy")
    assert found.schema["properties"]["count"] == {"type": "integer", "minimum": 1}
    read, problems = found.read({"order": {"amount": 3}, "count": 1})
    assert (read["order"], problems) == (Order(amount=3), [])
    _, problems = found.read({"order": {"amount": "3"}, "count": 0})
    assert problems[0].startswith("order.amount: Input should be a valid integer")
    assert problems[1] == "count: Input should be greater than or equal to 1"
    assert to_json(Order(amount=1)) == {"amount": 1, "note": ""}


class Wrong:
    def untyped(self, a) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    def positional(self, a: int, /) -> None: ...
    def many(self, *a: int) -> None: ...
    def odd(self, a: complex) -> None: ...
    def odd_keys(self, a: dict[int, str]) -> None: ...
    def odd_choice(self, a: Literal[b"x"]) -> None: ...
    def unresolved(self, a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("untyped", "parameter 'a' has no type; write one, such as `a: str`"),
        ("positional", "parameter 'a' cannot be given by name"),
        ("many", "parameter 'a' cannot be given by name"),
        ("odd", "parameter 'a': the type complex has no JSON form here; supported are str, int"),
        ("odd_keys", "the keys of a JSON object are strings"),
        ("odd_choice", "the choice b'x' is no JSON scalar"),
        ("unresolved", "a type cannot be resolved"),
    ],
)
def test_authors_mistakes_are_named(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Signature(getattr(Wrong, name), f"Wrong.{name}")
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"Wrong.{name}")


@given(values)
def test_json_values_stay_as_they_are(value: Any) -> None:
    assert to_json(value) == value


def test_python_values_become_json() -> None:
    value = {
        Color.RED: (1, {2}),
        "d": dt.date(2024, 1, 2),
        "p": Plan([1]),
        "l": Level.LOW,
        "n": decimal.Decimal("1.0"),
    }
    assert json.loads(json.dumps(to_json(value))) == {
        "red": [1, [2]],
        "d": "2024-01-02",
        "p": {"steps": [1], "name": "plan"},
        "l": 1,
        "n": "1.0",
    }
    for bad in (object(), {"a": {(1, 2): 3}}, b"bytes"):
        with pytest.raises(TypeError):
            to_json(bad)
