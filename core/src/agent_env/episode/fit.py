"""Whether a sandbox provider can give at all what a step asks for, so that it is said before the first episode."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent_env.episode.chain import ChainProvider
from agent_env.plugin.sandbox import ISOLATIONS

if TYPE_CHECKING:
    from agent_env.episode.deployer import EnvRequest
    from agent_env.plugin.sandbox import Isolation, SandboxProvider


def too_open(provider: SandboxProvider, isolation: Isolation | None) -> str | None:
    """Why ``provider``, which has started, gives less than ``isolation``; `None` when it gives enough."""
    offered = provider.capabilities.isolation
    if isolation is None or ISOLATIONS.index(offered) >= ISOLATIONS.index(isolation):
        return None
    words = f"offers isolation {offered!r} here, less than {isolation!r} that is asked for"
    return f"sandbox provider {provider.name!r} {words}"


def misfit(provider: SandboxProvider, request: EnvRequest, isolation: Isolation | None = None) -> str | None:
    """What ``provider``, which has started, will refuse of ``request``; `None` when it looks well.

    A provider may still refuse more than its `Capabilities` tell, such as a size that its service does not sell.
    """
    if isinstance(provider, ChainProvider):
        # The next one takes over from one that is out of quota or out of reach, not from one that refuses.
        return misfit(provider.usable[0], request, isolation)
    if (why := too_open(provider, isolation)) is not None:
        return why
    can = provider.capabilities
    asked = {name for name, value in asdict(request.resources).items() if value is not None}
    if lacking := sorted(asked - can.limits):
        kept = f"it keeps {', '.join(sorted(can.limits))}" if can.limits else "it keeps none here"
        return f"sandbox provider {provider.name!r} cannot keep a limit of {', '.join(lacking)} ({kept})"
    if can.max_ttl_s is not None and request.ttl_s > can.max_ttl_s:
        return (
            f"sandbox provider {provider.name!r} lets nothing live for {request.ttl_s:g} s, "
            f"{can.max_ttl_s:g} s are the most"
        )
    return None


def spare_life(provider: SandboxProvider, request: EnvRequest) -> float:
    """Seconds that a sandbox may live beyond what ``request`` asks for, on every provider that may make it."""
    makers = provider.providers if isinstance(provider, ChainProvider) else (provider,)
    longest = [one.capabilities.max_ttl_s for one in makers]
    return min((most - request.ttl_s for most in longest if most is not None), default=math.inf)
