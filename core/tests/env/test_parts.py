"""Reading what ``data/add`` was given."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.parts import part_bytes, part_json
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text(), values, max_size=3))
def test_every_form_of_a_part_reads_alike(value: dict[str, Any]) -> None:
    raw = json.dumps(value).encode()
    parts: list[dict[str, Any]] = [
        {"kind": "data", "data": value},
        {"kind": "text", "text": raw.decode()},
        {"kind": "file", "file": {"bytes": base64.b64encode(raw).decode()}},
    ]
    for part in parts:
        assert part_json(part) == value
        assert json.loads(part_bytes(part)) == value


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    path.write_bytes(b"[1]")
    assert part_json({"kind": "file", "file": {"uri": path.as_uri()}}) == [1]
    with pytest.raises(FileNotFoundError):
        part_bytes({"kind": "file", "file": {"uri": f"{path.as_uri()}x"}})


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"kind": "file", "file": {"bytes": "*", "name": "d"}}, "the bytes of d are no base64"),
        ({"kind": "file", "file": {"uri": "http://h/p?secret"}}, r"the address http://h/p is neither"),
        ({"kind": "file", "file": {"uri": "file://other/p"}}, "file://other/p is neither"),
        ({"kind": "file"}, "a part of kind 'file' cannot be read"),
        ({"kind": "text", "text": "{"}, "Expecting"),
    ],
)
def test_parts_that_cannot_be_read(part: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        part_json(part)
