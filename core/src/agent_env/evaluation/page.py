"""The report of a run: one HTML file that loads nothing and works from a disk.

What models and envs wrote reaches the page escaped, or as JSON inside inert script elements, transcripts packed. It is
shown as text only; a content policy forbids every script but the page's own, and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agent_env.evaluation.packed import pack
from agent_env.evaluation.plots import histogram, number, task_bars
from agent_env.evaluation.store import without_transcript
from agent_env.evaluation.summary import by_task, solves, summarize
from agent_env.evaluation.tables import failure_table, settings_table, task_table, with_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent_env.evaluation.record import EpisodeRecord
    from agent_env.evaluation.settings import EvalSettings
    from agent_env.evaluation.summary import Prices


def render_page(
    settings: EvalSettings,
    records: Sequence[EpisodeRecord],
    *,
    prices: Prices | None = None,
    transcripts: bool = True,
    conversations: Iterable[tuple[tuple[str, int], Any]] | None = None,
    wasted: Mapping[str, int] | None = None,
) -> str:
    """The report as HTML.

    Args:
        settings: of the run.
        records: its episodes, with transcripts.
        prices: of a million tokens.
        transcripts: put the conversations into the page; they are most of its size.
        conversations: by task and repeat, read one after another; default those of ``records``.
        wasted: tokens of replaced episodes.
    """
    summary = summarize(settings, records, prices=prices, wasted=wasted)
    tasks = by_task(records, settings.pass_at)
    if conversations is None:
        conversations = ((record.key, record.as_json()["messages"]) for record in records)
    chunks, places = pack(conversations if transcripts else ())
    script = _asset("report.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'"
    title = f"{settings.bundle} / {settings.split} · {settings.model}"
    rewards = [record.reward for record in records if record.reward is not None]
    plots = [
        ("Rewards", histogram(rewards, label="reward")),
        ("Tokens", histogram([float(record.spent) for record in records], label="tokens of an episode")),
    ]
    figures = "".join(f"<figure><figcaption>{name}</figcaption>{svg}</figure>" for name, svg in plots)
    bars = task_bars(tasks)
    warnings = "".join(f"<li>{escape(text)}</li>" for text in summary["warnings"])
    data = {"episodes": [_episode(record, settings.pass_at, places.get(record.key)) for record in records]}
    packed = "".join(f'<script type="text/plain" class="chunk">{chunk}</script>\n' for chunk in chunks)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{_asset("report.css")}</style>
</head>
<body>
<header><h1>{escape(settings.model)}</h1><p>{escape(settings.bundle)} / {escape(settings.split)} ·
{settings.tasks} tasks &times; {settings.k}{_when(records)}</p></header>
<main>
<section class="tiles">{_tiles(summary)}</section>
{_ends(summary)}
{f'<section class="warnings"><ul>{warnings}</ul></section>' if warnings else ""}
<section class="plots">{figures}
<figure class="wide"><figcaption>Mean reward by task</figcaption>{bars}</figure></section>
<details class="settings"><summary>Settings</summary>{settings_table(settings)}</details>
{failure_table(records)}
<section><h2>Tasks</h2>{task_table(tasks, records, prices)}</section>
<section>
<h2 id="all">Episodes</h2>
<noscript><p>The table of episodes and their transcripts needs JavaScript.</p></noscript>
<form id="filter" class="filter">
<input id="search" type="search" placeholder="Search tasks, failures and transcripts" aria-label="Search">
<select id="state" aria-label="State"><option value="">all</option><option value="solved">solved</option>
<option value="unsolved">scored, not solved</option><option value="failed">failed</option>
<option value="odd">invalid or unknown calls</option><option value="truncated">truncated</option></select>
<output id="count"></output>
</form>
<div class="scroll"><table id="episodes"><thead><tr>
<th data-key="task">task</th><th data-key="repeat">repeat</th><th data-key="reward">reward</th>
<th data-key="turns">turns</th><th data-key="tool_calls">calls</th><th data-key="odd">invalid</th>
<th data-key="tokens">tokens</th><th data-key="seconds">seconds</th><th data-key="end">end</th>
</tr></thead><tbody></tbody></table></div>
<button id="more" type="button" hidden>Show more</button>
</section>
</main>
<script type="application/json" id="data">{embed(data)}</script>
{packed}<script>{script}</script>
</body>
</html>
"""
    return page.encode("utf-8", "replace").decode("utf-8")  # half surrogates are no text


def _ends(summary: dict[str, Any]) -> str:
    """How often episodes ended for what."""
    ends = ", ".join(f"{reason} {count:,}" for reason, count in summary["end_reasons"].items())
    return f'<p class="note">Episodes ended by: {escape(ends)}</p>' if ends else ""


def _when(records: Sequence[EpisodeRecord]) -> str:
    """When it was played."""
    times = [record.ended for record in records if record.ended > 0]
    if not times:
        return ""
    first, last = (time.strftime("%Y-%m-%d %H:%M", time.gmtime(one)) for one in (min(times), max(times)))
    return f" · {first}{'' if first == last else f' to {last}'} UTC"


def embed(value: Any) -> str:
    """JSON that cannot leave the script element it stands in, whatever strings it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _episode(record: EpisodeRecord, pass_at: float, place: tuple[int, int] | None) -> dict[str, Any]:
    value = without_transcript(record).as_json()
    return {
        "task": value["task"],
        "index": value["index"],
        "repeat": value["repeat"],
        "reward": value["reward"],
        "scores": value["scores"],
        "failure": None if record.failure is None else str(record.failure),
        "turns": value["turns"],
        "tool_calls": value["tool_calls"],
        "invalid": value["invalid_calls"],
        "unknown": value["unknown_calls"],
        "odd": record.odd_calls,
        "solved": record.reward is not None and solves(record.reward, pass_at),
        "truncated": value["truncated"],
        "tokens": record.spent,
        "seconds": round(record.seconds.get("total", 0.0), 2),
        "end": value["end_reason"],
        "notes": [*value["earlier"], *value["warnings"]],
        "at": place,
    }


def _tiles(summary: dict[str, Any]) -> str:
    tiles = [("mean reward", with_error(summary["mean_reward"], summary["stderr"]))]
    scored_tasks = sum(1 for one in summary["tasks"] if one["scored"])
    for size, figures in summary["pass"].items():
        if figures["mean"] is not None:
            of = f" ({figures['tasks']} tasks)" if figures["tasks"] < scored_tasks else ""
            tiles.append((f"pass@{size}{of}", with_error(figures["mean"], figures["stderr"])))
    tiles.append(("episodes", f"{summary['scored']} scored, {summary['failed']} failed"))
    tiles.append(("calls", f"{summary['tool_calls']:,}"))
    tiles.append(("invalid / unknown calls", f"{summary['invalid_calls']} / {summary['unknown_calls']}"))
    tokens = summary["tokens"]
    tiles.append(("tokens in / out", f"{number(tokens['prompt'])} / {number(tokens['completion'])}"))
    if summary["cost"] is not None:
        tiles.append(("cost", f"{summary['cost']:,.2f}" if summary["cost"] >= 1 else f"{summary['cost']:.4f}"))
    if summary["mean_episode_seconds"] is not None:
        tiles.append(("seconds an episode", number(summary["mean_episode_seconds"])))
    if summary["played_again"]:
        tiles.append(("played again after a passing failure", str(summary["played_again"])))
    return "".join(
        f'<div class="tile"><span>{escape(name)}</span><strong>{escape(text)}</strong></div>' for name, text in tiles
    )


def _asset(name: str) -> str:
    return files("agent_env.evaluation").joinpath(name).read_text(encoding="utf-8")
