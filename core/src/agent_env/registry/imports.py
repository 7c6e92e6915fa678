"""Import strings, and what to say when an import fails."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import PluginLoadError
from agent_env.registry.install import install_command
from agent_env.registry.sources import normalized
from agent_env.registry.text import reason_of

if TYPE_CHECKING:
    from agent_env.registry.sources import Source

IMPORT_STRING: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def import_object(string: str, what: str, source: Source) -> Any:
    """The object behind ``"package.module:attribute"``.

    Args:
        string: the import string.
        what: for the message, such as ``"reward 'mean'"``.
        source: the plugin that gave the string.

    Raises:
        PluginLoadError: names the plugin and what is missing.
    """
    module_name, _, path = string.partition(":")
    if IMPORT_STRING.fullmatch(string) is None:
        raise PluginLoadError(f"{what} of {source.label}: {string!r} is no import string 'package.module:attribute'")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise PluginLoadError(
            f"{what} of {source.label} cannot be imported: {why(error, source, module_name)}"
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except (Exception, SystemExit) as error:
            reason = f"{module_name} has no {path!r}" if isinstance(error, AttributeError) else why(error, source)
            raise PluginLoadError(f"{what} of {source.label} cannot be imported: {reason}") from error
    return found


def why(error: BaseException, source: Source, module: str = "") -> str:
    """Why the import of ``module`` (or of the hook module) failed, with the command that installs what is missing."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return reason_of(error)
    missing = error.name
    own = {text.partition(":")[0].partition(".")[0] for text in (source.value, module)}
    top = missing.partition(".")[0]
    if top in {*own, "agent_env"}:
        return f"there is no module {missing!r} in this environment (entry point {source.entry_point!r})"
    return f"it needs the package {top!r}, which is not installed: {install_command(_wanted(top, source))}"


def _wanted(module: str, source: Source) -> str:
    """What to install for ``module``: the plugin's distribution, with the extra that asks for the module.

    Never the module's own name: it need not be the name of a package, or not of the right one.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(source.distribution) or []
    except (PackageNotFoundError, ValueError):
        return source.distribution
    for line in lines:
        name = _REQUIREMENT.match(line)
        if name is not None and normalized(name[1]) == normalized(module):
            extra = _EXTRA.search(line)
            return f"{source.distribution}[{extra[1]}]" if extra is not None else source.distribution
    return source.distribution
