"""Choosing settings on validation rows: a search space, trials as units of a sweep, a refit of the best."""
