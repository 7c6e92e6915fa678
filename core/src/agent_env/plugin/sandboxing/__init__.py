"""What sandbox providers share: creates without leaks, leases, rate limits, a bundle's code, options."""
