"""Reward combiners that put all or some scores together: mean, min, max, product, weighted."""
