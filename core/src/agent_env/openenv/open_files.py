"""How many files a process that serves or plays episodes may hold open."""

from __future__ import annotations

_WANTED = 65_536


def allow_many_files() -> None:
    """Raise the soft limit: every episode holds connections and pipes, and 1024, let alone 256, are soon used up."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
