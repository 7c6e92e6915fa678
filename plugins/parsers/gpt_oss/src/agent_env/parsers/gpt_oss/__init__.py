"""Tool-call parsers for gpt-oss (harmony)."""
