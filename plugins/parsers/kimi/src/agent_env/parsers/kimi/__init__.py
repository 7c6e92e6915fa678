"""Tool-call parsers for Kimi."""
