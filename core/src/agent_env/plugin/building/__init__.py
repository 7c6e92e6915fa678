"""For providers that build images: a folder's build context with our core in it, its digest, and how its server starts.

`context.read` looks at an env's folder, `plan.server_of` says what its Dockerfile and ``agentenv.toml`` start.
"""
