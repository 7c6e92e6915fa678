"""Tool-call parsers for GLM."""
