"""Sandboxes of E2B, and of self-hosted servers that speak its API. See the README of this distribution."""
