"""Baselines: models that implement the contract directly, without the engine."""
