"""AgentEnv bundles in SkyRL: `register` the environment, generate with `make_generator` or `generator_class`.

Importing this module is light; SkyRL is imported by the functions that need it.
"""

from agent_env.training.skyrl.setup import ENV_CLASS, generator_class, make_generator, register

__all__ = ["ENV_CLASS", "generator_class", "make_generator", "register"]
