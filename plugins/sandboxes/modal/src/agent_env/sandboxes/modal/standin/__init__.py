"""A stand-in of Modal's service, for tests: it speaks the SDK's wire and runs sandboxes as processes of this machine.

It encodes a reading of the protocol that the pinned SDK speaks: it proves that the provider drives the SDK, not that
the service agrees. It is no part of the wheel.
"""
