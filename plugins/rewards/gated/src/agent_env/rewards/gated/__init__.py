"""Reward combiners with conditions, penalties and bounds: gate, penalized, clip."""
