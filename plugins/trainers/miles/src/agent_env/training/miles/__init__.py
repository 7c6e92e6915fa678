"""AgentEnv for Miles: the agent function, the reward function, the group filters and the rows.

Nothing of Miles is imported. Miles loads `agent_env.training.miles.agent` by its dotted path.
"""
