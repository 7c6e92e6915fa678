"""The report of a run: one HTML file that loads nothing and works from a disk.

What models and envs wrote reaches the page as JSON inside an inert script element and is shown as text only; a content
policy forbids every script but the page's own, and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agent_env.evaluation.plots import histogram, number, task_bars
from agent_env.evaluation.summary import by_task, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.evaluation.record import EpisodeRecord
    from agent_env.evaluation.settings import EvalSettings
    from agent_env.evaluation.summary import Prices


def render_page(
    settings: EvalSettings,
    records: Sequence[EpisodeRecord],
    *,
    prices: Prices | None = None,
    transcripts: bool = True,
) -> str:
    """The report as HTML.

    Args:
        settings: of the run.
        records: its episodes, with transcripts.
        prices: of a million tokens.
        transcripts: put the conversations into the page; they are most of its size.
    """
    summary = summarize(settings, records, prices=prices)
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
    bars = task_bars(by_task(records, settings.pass_at))
    warnings = "".join(f"<li>{escape(text)}</li>" for text in summary["warnings"])
    data = {
        "pass_at": settings.pass_at,
        "episodes": [_episode(record, transcripts=transcripts) for record in records],
    }
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
{settings.tasks} tasks &times; {settings.k}</p></header>
<main>
<section class="tiles">{_tiles(summary)}</section>
{f'<section class="warnings"><ul>{warnings}</ul></section>' if warnings else ""}
<section class="plots">{figures}
<figure class="wide"><figcaption>Mean reward by task</figcaption>{bars}</figure></section>
<details class="settings"><summary>Settings</summary><table>{_settings_rows(settings)}</table></details>
<section>
<h2>Episodes</h2>
<noscript><p>The table of episodes needs JavaScript.</p></noscript>
<form id="filter" class="filter">
<input id="search" type="search" placeholder="Search tasks, failures and transcripts" aria-label="Search">
<select id="state" aria-label="State"><option value="">all</option><option value="solved">solved</option>
<option value="unsolved">scored, not solved</option><option value="failed">failed</option>
<option value="odd">invalid or unknown calls</option><option value="truncated">truncated</option></select>
<output id="count"></output>
</form>
<table id="episodes"><thead><tr>
<th data-key="task">task</th><th data-key="repeat">repeat</th><th data-key="reward">reward</th>
<th data-key="turns">turns</th><th data-key="tool_calls">calls</th><th data-key="odd">invalid</th>
<th data-key="tokens">tokens</th><th data-key="seconds">seconds</th><th data-key="end">end</th>
</tr></thead><tbody></tbody></table>
<button id="more" type="button" hidden>Show more</button>
</section>
</main>
<script type="application/json" id="data">{embed(data)}</script>
<script>{script}</script>
</body>
</html>
"""
    return page.encode("utf-8", "replace").decode("utf-8")  # half surrogates are no text


def embed(value: Any) -> str:
    """JSON that cannot leave the script element it stands in, whatever strings it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _episode(record: EpisodeRecord, *, transcripts: bool) -> dict[str, Any]:
    value = record.as_json()
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
        "odd": record.invalid_calls + record.unknown_calls + record.unparsed_calls,
        "truncated": value["truncated"],
        "tokens": record.spent,
        "seconds": round(record.seconds.get("total", 0.0), 2),
        "end": value["end_reason"],
        "notes": [*value["earlier"], *value["warnings"]],
        "messages": value["messages"] if transcripts else [],
    }


def _tiles(summary: dict[str, Any]) -> str:
    tiles = [("mean reward", with_error(summary["mean_reward"], summary["stderr"]))]
    for size, figures in summary["pass"].items():
        if figures["mean"] is not None:
            tiles.append((f"pass@{size}", with_error(figures["mean"], figures["stderr"])))
    tiles.append(("episodes", f"{summary['scored']} scored, {summary['failed']} failed"))
    tiles.append(("calls", f"{summary['tool_calls']:,}"))
    tiles.append(("invalid / unknown calls", f"{summary['invalid_calls']} / {summary['unknown_calls']}"))
    tokens = summary["tokens"]
    tiles.append(("tokens in / out", f"{number(tokens['prompt'])} / {number(tokens['completion'])}"))
    if summary["cost"] is not None:
        tiles.append(("cost", f"{summary['cost']:.2f}"))
    return "".join(
        f'<div class="tile"><span>{escape(name)}</span><strong>{escape(text)}</strong></div>' for name, text in tiles
    )


def with_error(mean: float | None, stderr: float | None) -> str:
    """``0.512 ± 0.031``."""
    if mean is None:
        return "none"
    return f"{mean:.3f}" if stderr is None else f"{mean:.3f} ± {stderr:.3f}"


def _settings_rows(settings: EvalSettings) -> str:
    rows: list[str] = []
    for key, value in settings.as_json().items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows.append(f"<tr><th>{escape(key)}</th><td>{escape(shown)}</td></tr>")
    return "".join(rows)


def _asset(name: str) -> str:
    return files("agent_env.evaluation").joinpath(name).read_text(encoding="utf-8")
