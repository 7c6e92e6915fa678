"""The server's parts; `agent_env.openenv.build_app` joins them."""
