"""Evaluation: plays the tasks of a bundle with a model behind an OpenAI-compatible endpoint and says how well it did.

`agent_env.evaluation.run` plays, `store` keeps every episode on disk, `summary` and `compare` are the figures, `page`
is the report. Nothing here is imported before it is used.
"""
