"""Where the ``agentenv`` command starts, before anything of ``agent_env`` is imported."""


def main() -> None:
    """Run the command line."""
    from agent_env.cli.main import main as run

    run()
