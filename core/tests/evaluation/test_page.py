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
from agent_env.evaluation.page import embed, render_page
from agent_env.evaluation.plots import histogram, number, task_bars
from agent_env.evaluation.record import EpisodeRecord
from agent_env.evaluation.summary import by_task
from hypothesis import given
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
    assert hostile.names.count("script") == 2
    assert "img" not in hostile.names
    assert hostile.names == plain.names
    assert not [name for name, _ in hostile.attributes if name.startswith("on") or name in {"src", "href"}]
    data = json.loads(hostile.scripts[0])
    assert [one["task"] for one in data["episodes"]] == [one.as_json()["task"] for one in hostile_records()]


def test_the_policy_allows_the_pages_own_script_only(settings: EvalSettings) -> None:
    page = page_of(settings)
    parsed = Elements()
    parsed.feed(page)
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    outside = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    assert "url(" not in outside
    assert "@import" not in outside


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
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
    assert "PRIVATE" in render_page(settings, records)
    assert "PRIVATE" not in render_page(settings, records, transcripts=False)
    assert "nothing to show" in render_page(settings, [])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to open the page with")
def test_a_browser_shows_the_episodes_and_runs_nothing_else(settings: EvalSettings, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(settings), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run(
        [*command, "--virtual-time-budget=2000", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    parsed = Elements()
    parsed.feed(shown)
    assert ("class", "episode") in parsed.attributes
    assert parsed.attributes.count(("class", "episode")) == len(HOSTILE)
    assert parsed.names.count("script") == 2
    assert "img" not in parsed.names
    assert "5 of 5 episodes" in shown
    assert "<title>owned" not in shown
