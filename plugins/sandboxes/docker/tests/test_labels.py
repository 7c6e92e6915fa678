"""What the engine tells of a container, written by any version of this provider."""

from __future__ import annotations

import json

import pytest
from agent_env.sandboxes.docker import labels

WRITTEN = {
    "agentenv": "docker",
    "agentenv.id": "0123456789abcdef",
    "agentenv.owner": '{"host":"h","boot":"b","pidns":"n","pid":7,"start":9}',
    "agentenv.created": "1700000000.250",
    "agentenv.expires": "1700003600.250",
    "agentenv.label.label": "gridsim",
    "agentenv.label.team": "blue",
    "agentenv.about": '{"label":"gridsim","serves":true,"way":"socket","uds":true,"port":8000,"folder":"/s/f"}',
}
"""The labels of a container of version 0.1."""


def entry(*names: str, **changed: str) -> dict[str, object]:
    return {"Id": "f" * 64, "State": "running", "Names": list(names), "Labels": {**WRITTEN, **changed}}


def test_a_container_of_an_older_version_is_found_and_used() -> None:
    found = labels.listed(entry("/agentenv-0123456789abcdef"))
    assert found is not None
    assert (found.id, found.create_id, found.status) == ("f" * 12, "0123456789abcdef", "running")
    assert (found.created_at, found.expires_at) == (1700000000.25, 1700003600.25)
    assert found.owner == {"host": "h", "boot": "b", "pidns": "n", "pid": 7, "start": 9}
    assert found.labels == {"agentenv": "docker", "create_id": "0123456789abcdef", "label": "gridsim", "team": "blue"}
    assert found.about == labels.About(label="gridsim", serves=True, way="socket", uds=True, port=8000, folder="/s/f")


def test_an_older_version_finds_what_is_written() -> None:
    about = labels.About(label="gridsim", serves=True, way="socket", uds=True, port=8000, folder="/s/f")
    written = labels.LABELS.write(
        "0123456789abcdef", "gridsim", {"team": "blue"}, about, created_at=1700000000.25, expires_at=1700003600.25
    )
    owner = "agentenv.owner"
    assert {**written, owner: WRITTEN[owner]} == WRITTEN
    assert json.loads(labels.filters({"team": "blue"})) == {"label": ["agentenv=docker", "agentenv.label.team=blue"]}


@pytest.mark.parametrize(("name", "expires"), [("-1700009999", 1700009999.0), ("-x", 1700003600.25)])
def test_a_name_tells_of_a_longer_life(name: str, expires: float) -> None:
    found = labels.listed(entry(f"/agentenv-0123456789abcdef{name}"))
    assert found is not None
    assert found.expires_at == expires


def test_what_is_none_of_ours() -> None:
    assert labels.listed({"Id": "f" * 64, "State": "running", "Names": None, "Labels": None}) is None
    assert labels.listed(entry(agentenv="process")) is None
    broken = labels.listed(entry(**{"agentenv.about": '{"new":1}', "agentenv.owner": "[", "agentenv.expires": ""}))
    assert broken is not None
    assert not broken.about.serves
    assert broken.owner == {}
