"""Where the ``agentenv`` command starts, before anything of ``agent_env`` is imported."""

from __future__ import annotations

import sys

OTHER = "agentenv-framework"


def main() -> None:
    """Run the command line.

    The distribution agentenv-framework brings a regular package ``agent_env``, which hides this project's namespace;
    with it nothing below could be imported, so it is looked for first.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(OTHER)
    except PackageNotFoundError:
        pass
    else:
        print(  # noqa: T201
            f"error: {OTHER} and agentenv-core both bring the package agent_env and cannot share one Python "
            f"environment: uninstall {OTHER} from {sys.prefix}, or install agentenv-core into another environment",
            file=sys.stderr,
        )
        raise SystemExit(2)
    try:
        from agent_env.cli.main import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
