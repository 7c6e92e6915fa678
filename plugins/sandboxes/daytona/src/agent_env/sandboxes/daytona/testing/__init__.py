"""A stand-in for Daytona's service: the wire of the pinned SDK, and local processes instead of machines.

It holds one reading of the protocol: it shows that the plugin drives the SDK, not that the cloud agrees. It needs
bubblewrap (``bwrap``). Nothing else of this distribution imports it.
"""
