"""The testing kit: conformance suites for plugin kinds, the stand-in model, rehearsals and envs inside the process.

Nothing here is imported before it is used; the modules have one subject each.
"""
