"""A reward combiner that prefers short episodes."""
