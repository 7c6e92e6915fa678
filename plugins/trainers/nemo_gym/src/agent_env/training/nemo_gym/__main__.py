"""``python -m agent_env.training.nemo_gym URL``: the resources server as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from typing import TYPE_CHECKING

from agent_env.errors import AgentEnvError, UsageError
from agent_env.training.nemo_gym.settings import MODES, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m agent_env.training.nemo_gym", description=__doc__)
    parser.add_argument("url", help="address of the bundle's server")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=8010, help="port to listen on, 0 = a free one (%(default)s)")
    parser.add_argument("--token-var", help="environment variable that holds the bundle server's token")
    parser.add_argument("--on-infra-failure", choices=MODES, default="mask", help="what a failed episode becomes")
    parser.add_argument("--idle-timeout", type=float, default=3600.0, help="seconds until an idle episode is given up")
    parser.add_argument("--most-failures", type=int, default=128, help="failures in a row until masking stops")
    given = parser.parse_args(arguments)
    try:
        settings = ServerSettings(
            given.url, given.token_var, given.on_infra_failure, given.idle_timeout, given.most_failures
        )
        _serve(settings, given.host, given.port)
    except AgentEnvError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _serve(settings: ServerSettings, host: str, port: int) -> None:
    try:
        import uvicorn
        from agent_env.training.nemo_gym.app import build_app
    except ImportError as error:
        words = f"the server needs {error.name}: pip install 'agentenv-trainer-nemo-gym[server]'"
        raise UsageError(words) from None
    config = uvicorn.Config(build_app(settings), log_level="warning", timeout_graceful_shutdown=5)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)  # from here on connections wait rather than being refused
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error}") from None
        where = f"[{host}]" if ":" in host else host
        print(f"listening on http://{where}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    sys.exit(main())
