"""Uploads of build contexts to the stand-in: the SDK's object storage takes no plain address by itself."""

from __future__ import annotations

from typing import Any


def allow() -> None:
    """Let this process's SDK upload over plain HTTP. For tests only."""
    from daytona._async import object_storage

    module: Any = object_storage
    store = module.S3Store
    if getattr(store, "plain", False):
        return

    def plain_http(**options: Any) -> Any:
        return store(**{**options, "client_options": {**options["client_options"], "allow_http": True}})

    plain_http.plain = True  # type: ignore[attr-defined]
    module.S3Store = plain_http


def allow_in_children() -> str:
    """Text of a ``sitecustomize`` module for second processes of the conformance suite."""
    return f"""import sys
if "agent_env.testing.sandbox_child" in sys.orig_argv:
    from {__name__} import allow
    allow()
"""
