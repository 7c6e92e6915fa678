"""The report: whatever models wrote, the page shows it and does nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from agent_env.errors import Failure
from agent_env.evaluation import packed
from agent_env.evaluation.packed import unpack
from agent_env.evaluation.page import embed, render_page
from agent_env.evaluation.plots import histogram, number, task_bars
from agent_env.evaluation.record import EpisodeRecord
from agent_env.evaluation.summary import Prices, by_task
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.evaluation.settings import EvalSettings

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<!--<script>",
    "]]>&lt;b&gt;\u2028\u2029\x00\ud800",
    "javascript:alert(1)",
)


class Elements(HTMLParser):
    """Counts elements and keeps the text of scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def hostile_records() -> list[EpisodeRecord]:
    return [
        EpisodeRecord(
            f"{text}-{place}",
            place,
            0,
            None if place == 1 else place / 4,
            failure=Failure("env", text) if place == 1 else None,
            scores={text: 1.0},
            warnings=(text,),
            messages=[
                {"role": text, "content": text, "reasoning_content": text},
                {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": text, "arguments": text}}]},
                {"role": "assistant", "content": [{"type": "text", "text": text}], "tool_calls": "odd"},
            ],
        )
        for place, text in enumerate(HOSTILE)
    ]


def page_of(settings: EvalSettings) -> str:
    named = replace(settings, model=HOSTILE[0], bundle=HOSTILE[1], parser=HOSTILE[0])
    return render_page(named, hostile_records())


def test_what_models_wrote_makes_no_element(settings: EvalSettings) -> None:
    page = page_of(settings)
    hostile, plain = Elements(), Elements()
    hostile.feed(page)
    plain.feed(render_page(settings, [replace(one, task=f"t{one.index}") for one in hostile_records()]))
    assert hostile.names.count("script") == 3
    assert "img" not in hostile.names
    assert hostile.names == plain.names
    assert not [name for name, _ in hostile.attributes if name.startswith("on") or name in {"src", "href"}]
    data = json.loads(hostile.scripts[0])
    (talks,) = (unpack(script) for script in hostile.scripts[1:-1])
    assert talks == [one.as_json()["messages"] for one in hostile_records()]
    assert [one["task"] for one in data["episodes"]] == [one.as_json()["task"] for one in hostile_records()]


def test_the_policy_allows_the_pages_own_script_only(settings: EvalSettings) -> None:
    page = page_of(settings)
    parsed = Elements()
    parsed.feed(page)
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    outside = re.sub(r'<script type="(application/json|text/plain)".*?</script>', "", page, flags=re.DOTALL)
    assert "url(" not in outside
    assert "@import" not in outside


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@settings_of(max_examples=40, deadline=None)
def test_embedded_json_is_inert_and_the_same(value: Any) -> None:
    text = embed(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == value


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_plots_are_well_formed_and_count_everything(values: list[float]) -> None:
    svg = ET.fromstring(histogram(values, label="reward <&>"))
    counts = [int((title.text or "").rpartition(": ")[2]) for title in svg.iter("title")]
    assert sum(counts) == len(values)


@given(st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=3), max_size=60))
def test_bars_show_every_task_or_say_how_many_they_leave_out(rewards: list[list[float]]) -> None:
    records = [
        EpisodeRecord(f"<{index}>", index, repeat, reward)
        for index, several in enumerate(rewards)
        for repeat, reward in enumerate(several)
    ]
    svg = ET.fromstring(task_bars(by_task(records, 1.0)))
    shown = len(list(svg.iter("rect")))
    left_out = [
        int(found[1]) for text in svg.iter("text") if (found := re.fullmatch(r"… (\d+) tasks.*", text.text or ""))
    ]
    assert shown + sum(left_out) == len(rewards)


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings_of(max_examples=30, deadline=None)
def test_ticks_of_equal_values_differ(value: int, times: int) -> None:
    svg = ET.fromstring(histogram([float(value)] * times, label="tokens"))
    ticks = [
        text.text for text in svg.iter("text") if text.get("class") == "tick" and text.get("text-anchor") == "middle"
    ]
    assert len(ticks) > 1
    assert len(ticks) == len(set(ticks))


def test_numbers_as_people_read_them() -> None:
    assert [number(value) for value in (0.0, -0.0, 0.5, 0.12345, 1234.5, 1234567.0)] == [
        "0",
        "0",
        "0.5",
        "0.123",
        "1234",
        "1,234,567",
    ]


def test_transcripts_can_be_left_out(settings: EvalSettings) -> None:
    records = [EpisodeRecord("t", 0, 0, 1.0, messages=[{"role": "user", "content": "PRIVATE"}])]
    whole, parted = Elements(), Elements()
    whole.feed(render_page(settings, records))
    parted.feed(render_page(settings, records, transcripts=False))
    assert [unpack(script) for script in whole.scripts[1:-1]] == [[[{"role": "user", "content": "PRIVATE"}]]]
    assert len(parted.scripts) == 2
    assert json.loads(parted.scripts[0])["episodes"][0]["at"] is None
    assert "nothing to show" in render_page(settings, [])


def rows_of(page: str, table: str) -> list[list[str]]:
    """The texts of a table's cells, which are there without a script."""
    found = re.search(rf'<table id="{table}">.*?</table>', page, re.DOTALL)
    root = ET.fromstring(found[0].replace("&times;", "x")) if found else ET.Element("none")
    return [[cell.text or "" for cell in line] for line in root.iter("tr")]


def test_tasks_and_failures_need_no_script(settings: EvalSettings) -> None:
    failed = [
        EpisodeRecord("b", 1, n, None, failure=Failure("env", f"env 'x' <{n}> ended at 0x{n:08x}", retryable=True))
        for n in range(3)
    ]
    scored = [EpisodeRecord("a", 0, n, n / 2, tokens={"prompt": 1000, "completion": 10}, turns=2) for n in range(3)]
    other = [EpisodeRecord("a", 0, 3, None, failure=Failure("model", "no reply"))]
    page = render_page(settings, [*scored, *failed, *other], prices=Prices(1.0, 10.0))
    head, *tasks = rows_of(page, "tasks")
    assert head[-2:] == ["seconds", "cost"]
    assert tasks == [
        ["a", "3", "1", "0.500 ± 0.289", "0", "1", "1/3", "1.5", "0", "3,030", "0", "0.0033"],
        ["b", "0", "3", "none", "", "", "0/0", "0", "0", "0", "0", "0.0000"],
    ]
    assert rows_of(page, "failures")[1:] == [
        ["3", "env", "env 'x' <0> ended at 0x00000000", "b"],
        ["1", "model", "no reply", "a"],
    ]
    assert rows_of(render_page(settings, scored), "failures") == []


@given(st.lists(st.lists(st.dictionaries(st.text(), st.text()), max_size=3), max_size=20), st.integers(1, 200))
@settings_of(max_examples=25, deadline=None)
def test_packed_conversations_are_found_where_they_are_said_to_be(talks: list[Any], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK", chunk)
        chunks, places = packed.pack((("t", number), talk) for number, talk in enumerate(talks))
    read = [unpack(one) for one in chunks]
    assert [read[a][b] for a, b in places.values()] == [talk for talk in talks if talk]
    assert all("<" not in one for one in chunks)


def open_in_browser(path: Path, profile: Path, fragment: str = "") -> str:
    """The page as a browser has it once its script ran."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    return subprocess.run(
        [*command, "--virtual-time-budget=2000", "--dump-dom", path.as_uri() + fragment],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to open the page with")
def test_a_browser_shows_the_episodes_and_runs_nothing_else(settings: EvalSettings, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(settings), encoding="utf-8")
    shown = open_in_browser(path, tmp_path / "profile")
    parsed = Elements()
    parsed.feed(shown)
    assert parsed.attributes.count(("class", "episode")) == len(HOSTILE)
    assert parsed.names.count("script") == 3
    assert "img" not in parsed.names
    assert "5 of 5 episodes" in shown
    assert "<title>owned" not in shown
    unfolded = open_in_browser(path, tmp_path / "profile", "#e0")
    opened = Elements()
    opened.feed(unfolded)
    assert opened.attributes.count(("class", "episode")) == opened.attributes.count(("class", "detail")) == 1
    assert [value for name, value in opened.attributes if name == "class" and (value or "").startswith("message")] == [
        "message ",
        "message assistant",
        "message assistant",
    ]
    assert "&lt;/script&gt;&lt;script&gt;document.title='owned'&lt;/script&gt;(" in unfolded
    assert opened.names.count("script") == 3
    assert "<title>owned" not in unfolded
