"""``agentenv serve``: a bundle's tasks over OpenEnv."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from agent_env.cli.server_options import read_reward, read_sandbox_options, read_token, server_options

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Isolation


@click.command("serve")
@click.argument("bundle", type=click.Path(exists=True, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--max-concurrent-envs", default=8, show_default=True, type=click.IntRange(1), help="Episodes at once.")
@click.option("--warm", default=0, show_default=True, type=click.IntRange(0), help="Ready envs to keep for each env.")
@click.option("--token-var", metavar="NAME", help="Environment variable with the token that every client must send.")
@click.option(
    "--shutdown-deadline",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to tear down open episodes in.",
)
@click.option(
    "--isolation",
    type=click.Choice(["none", "shared", "namespace", "container", "vm"]),
    help="The least isolation of the envs that will do; less is refused.  [default: what the provider has]",
)
@click.option(
    "--session-lease",
    default=900.0,
    show_default=True,
    type=click.FloatRange(1),
    help="Seconds after which a session that was made over HTTP and that nobody uses ends.",
)
@click.option(
    "--max-message-bytes",
    default=100 * 1024 * 1024,
    show_default=True,
    type=click.IntRange(1024),
    help="Largest frame or body, in both directions.",
)
@server_options
def command(
    bundle: str,
    host: str,
    port: int,
    max_concurrent_envs: int,
    warm: int,
    token_var: str | None,
    shutdown_deadline: float,
    isolation: Isolation | None,
    session_lease: float,
    max_message_bytes: int,
    reward: str | None,
    sandbox: str | None,
    sandbox_options: tuple[str, ...],
) -> None:
    """Serve every task of the folder BUNDLE over OpenEnv."""
    import logging

    from agent_env.openenv import build_app
    from agent_env.openenv.run import run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    token = read_token(token_var)
    app = build_app(
        bundle,
        reward=read_reward(reward),
        sandbox=sandbox,
        sandbox_options=read_sandbox_options(sandbox_options, sandbox),
        max_concurrent_envs=max_concurrent_envs,
        warm=warm,
        token=token,
        shutdown_deadline=shutdown_deadline,
        isolation=isolation,
        session_lease=session_lease,
        max_message_bytes=max_message_bytes,
    )
    run(app, host=host, port=port)
