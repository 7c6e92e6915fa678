"""Finds plugins, keeps broken ones apart, and looks names up.

`Registry` reads the entry points of the group ``agentenv``. It imports a plugin's hook module and never what the
plugin's names stand for, until somebody asks for one with `Registry.load`.
"""

from agent_env.registry.kinds import Kind
from agent_env.registry.lookup import Registry, default_registry, forget_default_registry
from agent_env.registry.rows import PluginRow, Status

__all__ = ["Kind", "PluginRow", "Registry", "Status", "default_registry", "forget_default_registry"]
