"""Grades a GridSim day by what the env says of it. Anything unexpected raises: an env's failure is no score."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 30.0


async def verify(mcp_url: str) -> list[dict[str, Any]]:
    """One row: the score of the submitted schedule; 0 when there is none or it breaks a limit."""
    data = _graded(_call(mcp_url, "data/get"))
    if not data["submitted"]:
        why = "no schedule was submitted"
    elif not data["feasible"]:
        why = f"infeasible: {data['reason']}"
    else:
        why = f"earns ${data['profit']:.2f} of at most ${data['best_profit']:.2f}"
    return [{"id": "schedule", "result": data["score"] == 1.0, "score": data["score"], "description": why}]


def _graded(result: Any) -> dict[str, Any]:
    """The env's account of the day, checked."""
    data: dict[str, Any] = result["parts"][0]["data"]
    if data["loaded"] is not True:
        raise RuntimeError("the env has no day loaded, so there is nothing to grade")
    score = data["score"]
    if type(score) is not float or not 0.0 <= score <= 1.0:
        raise RuntimeError(f"the env answered the score {score!r}; expected a number from 0 to 1")
    if type(data["submitted"]) is not bool or (data["submitted"] and type(data["feasible"]) is not bool):
        raise RuntimeError("the env does not say whether a feasible schedule was submitted")
    if score > 0.0 and not (data["submitted"] and data["feasible"]):
        raise RuntimeError(f"the env scored {score!r} for a day without a feasible schedule")
    return data


def _call(mcp_url: str, method: str) -> Any:
    """The result of a call of the env protocol, which is served beside ``/mcp``."""
    parts = urlsplit(mcp_url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
    path = parts.path.rstrip("/").removesuffix("/mcp") + "/agentenv"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        response = connection.getresponse()
        raw = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise RuntimeError(f"{method}: the env answered HTTP {response.status}: {raw[:300]!r}")
    reply = json.loads(raw)
    if "error" in reply:
        raise RuntimeError(f"{method}: {reply['error']}")
    return reply["result"]
