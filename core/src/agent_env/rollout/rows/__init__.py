"""Row files for trainers: streamed from a bundle's server, whole or not at all, in memory that does not grow."""

from agent_env.rollout.rows.progress import show_progress
from agent_env.rollout.rows.write import RowFormat, check_settings, write_row_files

__all__ = ["RowFormat", "check_settings", "show_progress", "write_row_files"]
