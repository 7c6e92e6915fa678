"""What to say where the server's packages, the extra ``server``, are not installed."""

from __future__ import annotations

from typing import Final

from agent_env.errors import UsageError

PACKAGES: Final = frozenset({"fastapi", "starlette", "uvicorn", "websockets"})
INSTALL: Final = (
    "needs agentenv-core[server]: pip install 'agentenv-core[server]', or in a checkout of AgentEnv: "
    "pip install './core[server]'"
)


def without_server(error: ModuleNotFoundError) -> Exception:
    """The error to raise in place of ``error``: itself, unless a package of the extra is what is missing."""
    top = (error.name or "").partition(".")[0]
    if top not in PACKAGES:
        return error
    return UsageError(f"serving a bundle {INSTALL} (there is no package {top!r})")
