"""Tool-call parsers for DeepSeek."""
