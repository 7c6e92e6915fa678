"""Grades an episode by what the env says of it. It runs in a process of its own and needs the standard library only.

Whatever is unexpected raises: then the episode has failed and has no score, instead of a wrong one.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def verify(mcp_url: str) -> list[dict[str, Any]]:
    """The rows of the verification: one, with a score between 0 and 1."""
    state = data_get(mcp_url)
    value, target, moves, fewest = state["value"], state["target"], state["moves"], state["fewest"]
    if fewest < 1:
        raise RuntimeError("the env has no task to grade")
    reached = value == target
    score = fewest / moves if reached else 0.0
    text = f"{moves} moves instead of {fewest}" if reached else f"stopped at {value} instead of {target}"
    return [{"id": "reached", "result": reached and moves == fewest, "score": score, "description": text}]


def data_get(mcp_url: str) -> dict[str, Any]:
    """The env's data, over the env protocol that is served beside ``/mcp``."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": {}}).encode()
    url = mcp_url.rstrip("/").removesuffix("/mcp") + "/agentenv"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        reply = json.load(response)
    if "error" in reply:
        raise RuntimeError(f"data/get: {reply['error']}")
    data: dict[str, Any] = reply["result"]["parts"][0]["data"]
    return data
