"""Packages that come with verl, imported where they are first used and never with this package."""

from __future__ import annotations

import importlib
from typing import Any


def third_party(name: str) -> Any:
    """The module ``name``; untyped, since its types are none of ours."""
    return importlib.import_module(name)
