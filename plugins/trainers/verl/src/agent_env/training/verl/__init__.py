"""AgentEnv for verl: an agent loop, its configuration and rows of a served bundle.

Importing this package imports nothing of verl; verl itself imports `agent_env.training.verl.loop`, as `CONFIG` says.
"""

from pathlib import Path
from typing import Final

__all__ = ["AGENT_NAME", "CONFIG"]

AGENT_NAME: Final = "agentenv"
"""The loop's name, as in the column ``agent_name`` of the rows."""
CONFIG: Final = Path(__file__).with_name("agent_loop.yaml")
"""A file for ``actor_rollout_ref.rollout.agent.agent_loop_config_path``."""
