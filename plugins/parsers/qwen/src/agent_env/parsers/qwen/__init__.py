"""Tool-call parsers for Qwen (and Hermes)."""
