"""Importing a service's SDK when it is first needed: what is wrong with the installed one is said in words."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from typing import Any

from agent_env.errors import PluginLoadError


def import_sdk(package: str, *modules: str, plugin: str, at_least: str) -> tuple[Any, ...]:
    """The SDK's modules. Importing may take seconds: call it off the event loop.

    Args:
        package: name of the SDK's distribution.
        modules: what to import; the package itself when none is named.
        plugin: the distribution that needs it, for messages: installing that one installs the right SDK.
        at_least: oldest version that will do.

    Raises:
        PluginLoadError: it is missing, too old or broken; the message says which, and has the command that mends it.
    """
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise PluginLoadError(
            f"{plugin} needs the package {package!r}, which is not installed; install it with: pip install {plugin}"
        ) from None
    if _numbers(version) < _numbers(at_least):
        raise PluginLoadError(
            f"{plugin} needs {package} {at_least} or newer, and {version} is installed; upgrade it with: "
            f"pip install --upgrade {plugin}"
        )
    try:
        return tuple(importlib.import_module(module) for module in modules or (package,))
    except Exception as error:
        raise PluginLoadError(
            f"{package} {version}, which {plugin} needs, is installed and cannot be imported "
            f"({type(error).__name__}: {error}); install it anew with what it needs: "
            f"pip install --upgrade --force-reinstall {plugin}"
        ) from error


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; all that a lower bound needs."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
