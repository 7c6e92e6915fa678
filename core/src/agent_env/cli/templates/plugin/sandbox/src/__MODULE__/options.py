"""What ``--sandbox-option __NAME__.KEY=VALUE`` may say. No secrets: those come from the environment."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations

from pydantic import BaseModel, ConfigDict


class __CLASS__Options(BaseModel):
    """The provider is made with those that were given, as keywords.

    Attributes:
        state_dir: folder for the sandboxes; short, because a unix socket's path holds 107 bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    state_dir: Path | None = None
