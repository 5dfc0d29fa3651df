"""Baselines: what the deep GPs are compared with. They share the engine's loop at most, no GP code."""
