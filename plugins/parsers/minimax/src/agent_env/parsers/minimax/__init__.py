"""Tool-call parsers for MiniMax."""
