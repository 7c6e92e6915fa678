"""A stand-in for the service, for tests: it speaks the real wire to the real SDK and runs sandboxes on this machine.

It is no virtual machine and proves nothing of the real service: it shows that the provider drives the SDK. A sandbox
is a bubblewrap namespace with a root of its own; there is one user, and no way out.
"""

from agent_env.sandboxes.e2b.testing.server import StandIn

__all__ = ["StandIn"]
