from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from agent_env.errors import SandboxUnavailable
from agent_env.plugin.sandboxing import lease, reaping
from agent_env.plugin.sandboxing.leased import MARK, Labels, Leased
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(max_size=20)


@dataclass(frozen=True, slots=True)
class About:
    serves: bool = False
    port: int = 0
    workdir: str = ""


@given(
    label=TEXT,
    user=st.dictionaries(TEXT.filter(lambda key: key != "label"), TEXT, max_size=3),
    about=st.builds(About, serves=st.booleans(), port=st.integers(0, 65535), workdir=TEXT),
    separator=st.sampled_from("._-"),
    expires=st.none() | st.floats(0, 4e9),
)
def test_what_is_written_is_read_again(
    label: str, user: dict[str, str], about: About, separator: str, expires: float | None
) -> None:
    labels = Labels("cloudlet", separator=separator)
    raw = labels.write("id1", label, user, about, created_at=17.25, expires_at=expires)
    said = labels.read({**raw, "somebody": "else"})
    assert said is not None
    assert said.labels == {MARK: "cloudlet", "create_id": "id1", "label": label, **user}
    assert said.about_as(About, About()) == about
    assert said.owner == lease.owner()
    assert said.created_at == 17.25
    assert (said.expires_at is None) == (expires is None)
    assert labels.query(user).items() <= raw.items()


@given(st.dictionaries(st.sampled_from(["", *Labels("x").write("i", "l", {}, About())]), TEXT))
def test_anything_can_be_read(raw: dict[str, str]) -> None:
    said = Labels("cloudlet").read({**raw, MARK: "cloudlet", "agentenv.id": "id1"})
    assert said is not None
    assert isinstance(said.about_as(About, About()), About)


@pytest.mark.parametrize("raw", [{}, {MARK: "cloudlet"}, {"agentenv.id": "x"}, {MARK: "docker", "agentenv.id": "x"}])
def test_what_is_not_ours_is_none(raw: dict[str, str]) -> None:
    assert Labels("cloudlet").read(raw) is None


def found(number: int, owner: dict[str, Any], *, expires_in: float = 1000.0) -> Leased:
    now = time.time()
    return Leased(
        id=f"b{number}", create_id="c", labels={}, created_at=now - 50, expires_at=now + expires_in, owner=owner
    )


def test_reaping_ends_what_nobody_owns_and_goes_on_after_a_failure() -> None:
    dead = {**lease.owner(), "start": -1}
    elsewhere = {**lease.owner(), "host": "another"}
    boxes = [
        found(0, lease.owner(), expires_in=-5),
        found(1, dead),
        found(2, elsewhere),
        found(3, elsewhere, expires_in=-5),
        found(4, dead),
    ]
    assert [box.record().owner_alive for box in boxes] == [True, False, None, None, False]

    async def end(box: Leased) -> None:
        if box.id == "b1":
            raise SandboxUnavailable("down")

    assert asyncio.run(reaping.reap(boxes, end)) == ["b3", "b4"]
    assert asyncio.run(reaping.reap(boxes, end, older_than_s=10)) == ["b2", "b3", "b4"]
    assert asdict(boxes[0])["status"] == "running"


def test_a_sweeper_reaps_again_and_again_whatever_the_service_says_until_it_is_closed() -> None:
    rounds: list[int] = []

    async def play() -> None:
        enough = asyncio.Event()

        async def reap() -> None:
            rounds.append(len(rounds))
            if len(rounds) == 2:
                raise SandboxUnavailable("the service is out of reach", provider="box")
            if len(rounds) == 4:
                enough.set()

        sweeper = reaping.Sweeper(reap, "box", first_s=0.0, every_s=0.001)
        await sweeper.close()
        sweeper.start()
        sweeper.start()
        async with asyncio.timeout(30):
            await enough.wait()
        await sweeper.close()
        done = len(rounds)
        await asyncio.sleep(0.05)
        assert len(rounds) == done
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(play())
    assert len(rounds) >= 4
