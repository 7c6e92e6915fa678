"""Sandboxes of Daytona. See the README of this distribution."""
