"""The two marks of the hook system and the name of the entry-point group."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "agentenv"
ENTRY_POINT_GROUP: Final = "agentenv"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
