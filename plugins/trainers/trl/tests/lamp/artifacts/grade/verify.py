"""The brightness of the lamp, between 0 and 1."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def verify(mcp_url: str) -> list[dict[str, Any]]:
    """One row with the score."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": {}}).encode()
    url = mcp_url.rstrip("/").removesuffix("/mcp") + "/agentenv"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        state = json.load(response)["result"]["parts"][0]["data"]
    score, pressed = state["brightness"], state["pressed"] or "none"
    return [{"id": "bright", "result": score == 1, "score": score, "description": f"pressed {pressed}"}]
