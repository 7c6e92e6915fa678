"""Tool-call parsers for Mistral."""
