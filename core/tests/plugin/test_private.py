"""A provider's folder is its user's alone, or it says how to get one."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_env.errors import SandboxError, SandboxUnsupported
from agent_env.plugin.sandboxing.private import SOCKET_PATH_LIMIT, private_folder


def make(path: Path, inside: int = 0) -> Path:
    return private_folder(path, provider="cloudlet", option="cloudlet.state_dir", inside=inside)


def test_it_is_made_for_the_user_alone_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = make(Path("a/b"))
    assert made == tmp_path / "a" / "b"
    assert made.stat().st_mode & 0o777 == 0o700
    assert make(Path("a/b")) == made


@pytest.mark.parametrize("kind", ["open", "file", "link"])
def test_what_others_may_use_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state"
    if kind == "open":
        path.mkdir(mode=0o755)
        path.chmod(0o755)
    elif kind == "file":
        path.write_text("")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SandboxError, match=f"{path}"):
        make(path)


def test_the_longest_socket_just_fits(tmp_path: Path) -> None:
    room = SOCKET_PATH_LIMIT - len(str(tmp_path))
    assert make(tmp_path / "state", room - len("/state")).is_dir()
    with pytest.raises(SandboxUnsupported, match=r"too long .* AGENTENV_STATE_DIR or the option cloudlet\.state_dir"):
        make(tmp_path / "other", room - len("/other") + 1)
    assert not (tmp_path / "other").exists()
