"""The command line: one file for each command, found through `agentenv_commands` and imported when called."""
