"""Typed parameters: from annotations to JSON Schema, and from JSON values to what the annotations say."""

from __future__ import annotations
