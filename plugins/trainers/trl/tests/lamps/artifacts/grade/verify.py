"""Half for the right room, half for the colour: whole for the one wished for, less for its neighbours."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

WHEEL = ("red", "orange", "yellow", "green", "blue", "violet")
NEIGHBOUR = 0.4


def verify(mcp_url: str) -> list[dict[str, Any]]:
    """A row for the room and one for the colour."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": {}}).encode()
    url = mcp_url.rstrip("/").removesuffix("/mcp") + "/agentenv"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        state = json.load(response)["result"]["parts"][0]["data"]
    wished, lit = state["wished"], state["lit"]
    if not lit:
        return [{"id": name, "result": False, "description": "no lamp was set"} for name in ("room", "colour")]
    colour, room = closeness(lit["colour"], wished["wanted"]), lit["room"] == wished["room"]
    return [
        {"id": "room", "result": room, "description": lit["room"]},
        {"id": "colour", "result": colour == 1, "score": colour, "description": lit["colour"]},
    ]


def closeness(colour: str, wanted: str) -> float:
    """1 for the colour itself, something for its neighbours on the wheel."""
    apart = abs(WHEEL.index(colour) - WHEEL.index(wanted))
    return {0: 1.0, 1: NEIGHBOUR, len(WHEEL) - 1: NEIGHBOUR}.get(apart, 0.0)
