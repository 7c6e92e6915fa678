from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import PluginLoadError
from agent_env.plugin.sandboxing.sdks import import_sdk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An SDK of version 1.10.2."""
    (tmp_path / "cloudlet_sdk").mkdir()
    (tmp_path / "cloudlet_sdk" / "__init__.py").write_text("WORD = 'cloudlet'")
    (tmp_path / "cloudlet_sdk" / "errors.py").write_text("")
    about = tmp_path / "cloudlet_sdk-1.10.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudlet-sdk\nVersion: 1.10.2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("cloudlet_sdk", "cloudlet_sdk.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "cloudlet-sdk"


@pytest.mark.parametrize("at_least", ["1", "1.9", "1.10.2", "0.99.7"])
def test_it_is_imported(installed: str, at_least: str) -> None:
    module, errors = import_sdk(
        installed, "cloudlet_sdk", "cloudlet_sdk.errors", plugin="agentenv-cloudlet", at_least=at_least
    )
    assert (module.WORD, errors.__name__) == ("cloudlet", "cloudlet_sdk.errors")


@pytest.mark.parametrize("at_least", ["1.10.3", "1.11", "2"])
def test_too_old(installed: str, at_least: str) -> None:
    with pytest.raises(PluginLoadError, match=f"needs cloudlet-sdk {at_least} or newer, and 1.10.2 is installed"):
        import_sdk(installed, "cloudlet_sdk", plugin="agentenv-cloudlet", at_least=at_least)


def test_missing() -> None:
    with pytest.raises(PluginLoadError, match=r"'no-such-sdk', which is not installed.*pip install agentenv-cloudlet"):
        import_sdk("no-such-sdk", plugin="agentenv-cloudlet", at_least="1")


def test_broken(installed: str) -> None:
    with pytest.raises(PluginLoadError, match=r"ModuleNotFoundError.*--force-reinstall agentenv-cloudlet"):
        import_sdk(installed, "cloudlet_sdk", "cloudlet_sdk.none", plugin="agentenv-cloudlet", at_least="1")
