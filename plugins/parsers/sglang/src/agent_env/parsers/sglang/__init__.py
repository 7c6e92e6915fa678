"""Tool-call parsers of an installed SGLang."""
