"""Tool-call parsers for Llama."""
