"""What the built-in steps do; one file for each subject. Their fields are `agent_env.bundle.steps`."""
